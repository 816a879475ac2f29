/* SPDX-License-Identifier: BSD-2-Clause */
/* live.h - which objects exist: programs call verbs with pointers to objects that
 * are freed, or are another context's.
 *
 * A process-wide table of those that live, by address.  A pointer is looked up
 * before anything behind it is read, so a stale one does no harm, unless its
 * memory is an object of the same kind again.  For control calls: polls do not ask,
 * and posts only of a bind's window and region.
 *
 * What each datagram names, its address handle, would cost too much to look up: its
 * memory stays an address handle's for ever, so that post can read in the object
 * itself whether it lives.
 */
#ifndef SYS_LIVE_H
#define SYS_LIVE_H

#include <stdbool.h>
#include <stdint.h>

enum live_kind {
	LIVE_NONE,
	LIVE_CONTEXT,
	LIVE_PD,
	LIVE_MR,
	LIVE_MW,
	LIVE_AH,
	LIVE_CHANNEL,
	LIVE_CQ,
	LIVE_SRQ,
	LIVE_QP,
	LIVE_DM,
	LIVE_TD,
	LIVE_XRCD,
	LIVE_FLOW,
	LIVE_COUNTERS,
	LIVE_WQ,
	LIVE_WQ_TABLE,
	LIVE_CM_ID, /* rdma_cm's; no context owns them */
	LIVE_CM_CHANNEL,
	LIVE_CM_EVENT,
	LIVE_KINDS,
};

/* Part of each object, and its first: the allocator's notes in freed memory,
 * which stand in front, leave the rest as it was.  Inline functions of verbs.h
 * read object->context before they call us. */
struct live {
	struct live *next;
	const void *owner; /* the ibv_context */
	enum live_kind kind;
};

void live_add(struct live *l, enum live_kind kind, const void *owner);
void live_del(struct live *l); /* in the table or not */

/* Is l an object of this kind?  Then *owner is its context.  l is compared, not
 * read; NULL is none. */
bool live_find(const struct live *l, enum live_kind kind, const void **owner);

/* The same of memory that can have been nothing but objects of this kind. */
static inline bool live_is(const struct live *l, enum live_kind kind)
{
	return l->kind == kind;
}

/* Instead of free(), after live_del().  All that come here are of one size. */
void live_rest(struct live *l);
/* The memory that has been here longest, unless few are here: a pointer to it is
 * stale for a while.  NULL: allocate. */
struct live *live_rested(void);

/* All that owner has exists no more.  It is put before what is in of[kind] already,
 * by next: the caller frees it. */
void live_take(const void *owner, struct live *of[LIVE_KINDS]);

const char *live_name(enum live_kind kind);

/* Calls fn for about n objects of this kind that are next behind *at, which is 0 at
 * first, or looks at 16 times as many others; none of them is freed meanwhile.  Nothing
 * that fn takes may be held by who asks this table.  False: that was all.  What lives
 * from the first of these calls to the last is met once, whatever comes and goes. */
bool live_next(enum live_kind kind, uint64_t *at, unsigned n,
	       void (*fn)(struct live *l, void *arg), void *arg);

/* Around fork: nobody changes the table meanwhile. */
void live_hold(void);
void live_let_go(void);

#endif
