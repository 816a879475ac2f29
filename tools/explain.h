/* SPDX-License-Identifier: BSD-2-Clause */
/* explain.h - the entries of `urnic explain', and how one is found. */
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
	CHECK,
	LOG,
	KINDS
};

enum { EXPLAIN_MOST = 512 }; /* at most so many entries */

struct entry {
	enum kind kind;
	int code; /* ERRNO and some of CM_STATUS: a negative errno */
	const char *name, *what, *todo;
	const char *example; /* of a check; else NULL */
};

/* explain_table.c: the rows of all .def files; a kind's name in JSON, and for people. */
extern const struct entry explain_entries[];
extern const int explain_entry_count;
extern const char *const explain_kind_name[KINDS], *const explain_kind_text[KINDS];

/* The text that programs print for e, such as strerror()'s, or "". */
const char *explain_spoken(const struct entry *e);
bool explain_has_code(const struct entry *e);

/* explain_find.c: calls show for each entry that text is about; text is a code, a name,
 * the text of an error or a line of a log.  Returns how many there were. */
int explain_find(const char *text, void (*show)(const struct entry *e));

/* The name that is most like text, or NULL if none is much like it. */
const char *explain_closest(const char *text);

#endif
