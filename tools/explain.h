/* SPDX-License-Identifier: BSD-2-Clause */
/* explain.h - what `urnic explain' knows, and how an entry is found. */
#ifndef TOOLS_EXPLAIN_H
#define TOOLS_EXPLAIN_H

#include <stdbool.h>

enum kind {
	VENDOR,
	STATUS,
	EVENT,
	NAK,
	COUNTER,
	CM_EVENT,
	CM_STATUS,
	CM_COUNTER,
	ERRNO,
	LOG,
	KINDS
};

enum { EXPLAIN_MOST = 512 }; /* entries */

struct entry {
	enum kind kind;
	int code; /* of ERRNO and some of CM_STATUS: negative */
	const char *name, *what, *todo;
};

/* explain_table.c: .def files, and what belongs to their rows. */
extern const struct entry explain_entries[];
extern const int explain_entry_count;
extern const char *const explain_kind_name[KINDS], *const explain_kind_text[KINDS];

/* What programs print for it, or "". */
const char *explain_spoken(const struct entry *e);
bool explain_has_code(const struct entry *e);

/* explain_find.c: call show for each entry that text, a code, a name, a text or a
 * line of a log, is about.  How many there were. */
int explain_find(const char *text, void (*show)(const struct entry *e));

/* The name that differs from text least, or NULL if all differ much. */
const char *explain_closest(const char *text);

#endif
