/* SPDX-License-Identifier: BSD-2-Clause */
/* live.h - a process-wide table of the objects that exist, by address: programs call
 * verbs with pointers to objects that were freed, or that belong to another context.
 *
 * A pointer is looked up before anything behind it is read, so a stale one does no harm
 * unless its memory holds an object of the same kind again.  Only control calls look
 * pointers up: polls do not, and posts do so only for the window and region of a bind.
 *
 * Looking up the address handle of each datagram would cost too much.  The memory of an
 * address handle is never used for anything else, so a post can read from the object
 * itself whether it is live. */
#ifndef SYS_LIVE_H
#define SYS_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "sys/live_kind.h"
#include "sys/lock.h"

void live_add(struct live *l, enum live_kind kind, const void *owner);
void live_del(struct live *l); /* l may be in the table or not */

/* Is l a live object of this kind?  Then *owner is its context.  l is compared, not read;
 * NULL is never found. */
bool live_find(const struct live *l, enum live_kind kind, const void **owner);

/* Is l live?  For memory that never holds anything but objects of this kind. */
static inline bool live_is(const struct live *l, enum live_kind kind)
{
	return l->kind == kind;
}

/* Keeps freed memory for reuse, in place of free(), after live_del().  All objects given
 * to it have the same size. */
void live_rest(struct live *l);
/* Takes the memory that has rested longest, if more than a few objects rest: so a stale
 * pointer stays stale for a while.  NULL: allocate instead. */
struct live *live_rested(void);

/* Takes all objects of owner out of the table and links them by next in front of
 * of[kind].  The caller frees them. */
void live_take(const void *owner, struct live *of[LIVE_KINDS]);

const char *live_name(enum live_kind kind);

/* Walks the table: calls fn for up to about n objects of this kind from position *at on
 * (0 at first), or passes over 16 times as many others.  None of them is freed meanwhile.
 * fn must not take a lock that a caller of this table may hold.  Returns false at the end
 * of the table.  An object that exists during the whole walk is shown once, whatever
 * comes and goes. */
bool live_next(enum live_kind kind, uint64_t *at, unsigned n,
	       void (*fn)(struct live *l, void *arg), void *arg);

/* Around fork: keeps the table unchanged.  live_hold() returns false if it does not. */
bool live_hold(enum lock_how how);
void live_let_go(void);
void live_forked(void); /* in the child, whether the table was held or not */

#endif
