/* SPDX-License-Identifier: BSD-2-Clause */
/* share.h - makes private memory of regions mappable by other processes, by turning it
 * into file pages (docs/direct.md, "Private memory"). The state is the process's, not
 * a NIC's.
 */
#ifndef DIRECT_SHARE_H
#define DIRECT_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "direct/movable.h"

struct core;
struct insiders;
struct mkey;

/* Starts sharing regions of this core. noticed: notice.h tells us what the program
 * does to such memory, including each fork. */
void share_start(struct core *core, bool noticed);
void share_stop(const struct core *core);

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
 * stack private. No lock of urnic is held, except by share_copy(). */
void share_leave_stack(void);

/* Called around fork(): share_copy() first, with no lock held; the others inside the
 * locks. */
void share_copy(void);
void share_before_fork(void);
void share_parent(void);
void share_child(void);

#endif
