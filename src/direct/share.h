/* SPDX-License-Identifier: BSD-2-Clause */
/* share.h - private memory of regions, made such that other processes can map it
 * (docs/direct.md, "Private memory").
 *
 * It is the process's memory, not a NIC's: a process has this once.
 */
#ifndef DIRECT_SHARE_H
#define DIRECT_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "direct/movable.h"

struct core;
struct insiders;
struct mkey;

/* From now on, of regions of this core.  noticed: we are told of what the program does to
 * such memory (notice.h), each fork included. */
void share_start(struct core *core, bool noticed);
void share_stop(const struct core *core);

/* A process that has the region of key mapped does not leave it: its pages become private
 * again under it, and what it writes there goes nowhere.  mk: the region, if its key is
 * no more.  gone: who does not, since what it uses is no more.  Neither the turn nor
 * another lock is held; by a thread of the program. False: it was not possible, and it
 * may write to the region still. */
bool share_take_back(struct core *core, uint32_t key, const struct mkey *mk,
		     const struct insiders *gone);

/* What is a file's of that becomes private again, whoever reaches it: the program is
 * going to do something that private memory would take otherwise.  False: not all of it,
 * since somebody else could touch it meanwhile.  In any place: it does not wait for long,
 * and allocates nothing. */
bool share_make_private(const struct extent *e);
/* No memory is made such any more. */
void share_no_more(void);

/* A process is going to have a copy of this one's memory: the caller's stack is no
 * file's. With none of our locks, but for that of the first call below. */
void share_leave_stack(void);

/* Around fork(): first, with no lock held, and behind the locks. */
void share_copy(void);
void share_before_fork(void);
void share_parent(void);
void share_child(void);

#endif
