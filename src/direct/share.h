/* SPDX-License-Identifier: BSD-2-Clause */
/* share.h - makes private memory of regions mappable by other processes, by turning it
 * into file pages (docs/dev/direct.md, "Private memory"). The state is the process's, not
 * a NIC's.
 */
#ifndef DIRECT_SHARE_H
#define DIRECT_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "sys/lock.h"

#include "direct/movable.h"

struct core;
struct insiders;
struct mkey;

/* Starts sharing regions of this core. noticed: notice.h tells us what the program
 * does to such memory, including each fork. */
void share_start(struct core *core, bool noticed);
void share_stop(const struct core *core);

/* From now on memory becomes a file's beside other threads, too, and stays so when one
 * begins (docs/dev/threads.md). Only where notices come. Returns 0, or -errno: the kernel
 * does not allow it. */
int share_beside_threads(void);
bool share_is_beside_threads(void);

/* Called when a process that has the region of key mapped does not leave it: makes the
 * pages private again, so that its later stores go nowhere. mk: the region, if its key
 * has ended. gone: the threads that do not leave. Called by a thread of the program
 * that holds neither the turn nor another lock. False: not possible, the process may
 * still write to the region. */
bool share_take_back(struct core *core, uint32_t key, const struct mkey *mk,
		     const struct insiders *gone);

/* Makes file pages in the extent private again, whoever uses them, because the program
 * is about to do something that private pages take differently. False: not all, since
 * another thread could touch them. May be called anywhere: waits only briefly and
 * allocates nothing. */
bool share_make_private(const struct extent *e);
/* Stops turning memory into file pages. */
void share_no_more(void);

/* A process with a copy of this one's memory is about to be made: makes the caller's
 * stack private. No lock of urnic is held. */
void share_leave_stack(void);

/* Called around fork(). share_prepare() comes first, with no lock held, and not in a
 * signal handler that has interrupted one of our calls. share_hold() returns false if
 * the lock is another's. */
void share_prepare(void);
bool share_hold(enum lock_how how);
void share_let_go(void);
/* Copies file pages for the child, and holds them still until one of the two calls that
 * follow; signals are blocked in between. False: there is nothing to copy, or the notices
 * of a fork, which come before and after these calls, make the copy. */
bool share_copy(void);
void share_copied(void);
void share_copied_to_child(void);
void share_forked(void); /* in the child, in place of share_let_go() */

#endif
