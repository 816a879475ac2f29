/* SPDX-License-Identifier: BSD-2-Clause */
/* share.h - private memory of regions, made such that other processes can map it
 * (docs/direct.md, "Private memory").
 *
 * It is the process's memory, not a NIC's: a process has this once.
 */
#ifndef DIRECT_SHARE_H
#define DIRECT_SHARE_H

#include <stdbool.h>
#include <stddef.h>

struct core;

/* From now on, of regions of this core. */
void share_start(struct core *core);

/* Before fork(), and after it. */
void share_before_fork(void);
void share_parent(void);
void share_child(void);

#endif
