/* SPDX-License-Identifier: BSD-2-Clause */
/* ward.h - pages of requests that are outstanding, protected against the program: the one
 * owner of page protection (docs/dev/races.md, "buffer-touched").
 *
 * Only pages that belong to a buffer wholly: whoever touches one touches the buffer.  A
 * page is open again when the first of these comes: its ward ends, another request names
 * it (but for sends, which may share one), urnic itself touches it, or the program does,
 * which is told of once. */
#ifndef CHECK_WARD_H
#define CHECK_WARD_H

#include "check/check.h"

/* The request whose pages they are. */
struct ward_note {
	const struct check_qp *qp;   /* or NULL: */
	const struct check_srq *srq; /* an SRQ's */
	uint64_t wr_id, at;
	check_trace trace;
	uint8_t opcode;
};

/* What the program did. */
struct ward_touch {
	struct ward_note note;
	uintptr_t at, by; /* by: the instruction; 0: not known */
	bool wrote;	  /* surely */
};

/* fn is called in a signal handler, in the thread that has touched a page: not in a call
 * of urnic's, nor in the child of a fork, but maybe in a check. */
void ward_start(void (*fn)(const struct ward_touch *t));

/* Protects the pages within [at, at + len) against writing and, if `reads', reading. The
 * program could read and write them. NULL: there are none, or too many already. next:
 * another ward of the request. */
struct ward *ward_begin(uint64_t at, uint64_t len, bool reads,
			const struct ward_note *note, struct ward *next);
/* Ends those of a request. */
void ward_end(struct ward *w);

/* The program may know that these bytes, or what it sends, are not used any more. */
void ward_open(uint64_t at, uint64_t len);
void ward_open_sends(void);
/* Something was not seen: opens all, and protects nothing any more. */
void ward_stop(void);

#endif
