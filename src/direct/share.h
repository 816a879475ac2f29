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

struct core;
struct mkey;

/* From now on, of regions of this core. */
void share_start(struct core *core);

/* A process that has the region of key mapped does not leave it: its pages become private
 * again under it, and what it writes there goes nowhere.  mk: the region, if its key is
 * no more.  Neither the turn nor another lock is held; by a thread of the program.
 * False: it was not possible, and it may write to the region still. */
bool share_take_back(struct core *core, uint32_t key, const struct mkey *mk);

/* Around fork(): first, with no lock held, and behind the locks. */
void share_copy(void);
void share_before_fork(void);
void share_parent(void);
void share_child(void);

#endif
