/* SPDX-License-Identifier: BSD-2-Clause */
/* numbers.h - the QPs, or the SRQs, of a NIC by the index in their number (wire/qpn.h).
 * A peer cannot guess an index from others, and an index rests before it is used again.
 *
 * The table is under the turn; what a cleared entry pointed to may be freed when the turn
 * ends. Only numbers.c uses the members of struct numbers.
 */
#ifndef VERBS_NUMBERS_H
#define VERBS_NUMBERS_H

#include <stdint.h>

#include "sys/secret.h"
#include "wire/qpn.h"

enum {
	QPN_FIRST = 2,	 /* 0 is reserved, 1 is the GSI */
	QPN_REST = 1022, /* spare numbers beyond max_qp: a freed number is
			  * given again only after this many others, so that
			  * a late packet does not find a new QP */
};

struct numbers {
	void **object;	/* [QPN_INDICES] */
	uint16_t *free; /* circular queue of free indices; NULL: none was used yet */
	uint32_t next;	/* place in the queue of the index that was freed first */
	uint32_t count; /* existing objects */
	uint32_t drawn; /* the queue is in random order up to this place */
	struct secret secret;
};

int numbers_init(struct numbers *n); /* returns 0 or -ENOMEM */
void numbers_fini(struct numbers *n);

/* Returns the object with this index, or NULL. */
static inline void *numbers_at(const struct numbers *n, uint32_t index)
{
	return n->object[index];
}

static inline uint32_t numbers_count(const struct numbers *n)
{
	return n->count;
}

/* Gets the index that numbers_add() will give next. Returns 0, or -ENOMEM: the memory is
 * used up, or the numbers are. */
int numbers_next(struct numbers *n, uint32_t *index);
/* Gives the object the index that numbers_next() has told. */
void numbers_add(struct numbers *n, void *object);
void numbers_del(struct numbers *n, uint32_t index);

#endif
