/* SPDX-License-Identifier: BSD-2-Clause */
/* top_model.h - what `urnic top' makes of two looks (seen.h): rates, order, and lines of
 * a given width. It knows nothing of terminals. */
#ifndef TOOLS_TOP_MODEL_H
#define TOOLS_TOP_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "seen.h"

enum top_key {
	TOP_RATE,
	TOP_BYTES,
	TOP_AGAIN,
	TOP_RNR,
	TOP_DEPTH,
	TOP_PID,
	TOP_QP,
	TOP_KEYS
};

/* What an order is called. */
extern const char *const top_keys[TOP_KEYS];

/* A QP, and how fast its numbers grow. */
struct top_row {
	const struct seen_qp *qp;
	const struct seen_process *process;
	bool fresh;			/* it was not there before: rates are 0 */
	double per_s[SEEN_NUMBERS];	/* of counters */
	double rate, bytes, again, rnr; /* sums of those, a second */
};

/* How the rows are chosen and put in order. */
struct top_view {
	enum top_key key;
	bool reverse;
	char filter[64]; /* rows that have it in one of their words; "": all */
};

/* Makes rows of the QPs of `now'; before: the look before that, or NULL. Returns how
 * many; *rows is to be freed, and refers to now. */
size_t top_rows(const struct seen *now, const struct seen *before,
		const struct top_view *view, struct top_row **rows);

/* Writes the number with 5 characters at most: 1234, 12.3k, 4.56G. */
void top_number(char text[8], double n);

/* Writes the head of the table, or a row, with exactly width characters, as columns fit;
 * what matters most stays in narrow terminals. text has width + 1 bytes. */
void top_head(char *text, size_t width);
void top_line(char *text, size_t width, const struct top_row *row);

/* Line i of the view of one QP: all that is known of it. Returns false behind the last.
 */
bool top_detail(char *text, size_t width, const struct top_row *row, unsigned i);

/* What to say of a process that has no rows, since it does not answer; "" if it does. */
void top_excuse(char *text, size_t width, const struct seen_process *p);

/* The first lines of the view: how many there are of what. */
void top_summary(char *text, size_t width, const struct seen *now,
		 const struct top_row *rows, size_t n);

/* Line i of what to do where there is no process. Returns false behind the last. */
bool top_nothing(char *text, size_t width, unsigned i);

#endif
