/* SPDX-License-Identifier: BSD-2-Clause */
/* room.h - can this process get more memory without any process being killed for it? */
#ifndef DIRECT_ROOM_H
#define DIRECT_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/* Can this process use `bytes` more? Checks address space, the machine's memory and
 * the limits of its control groups, as far as visible. Allocates nothing. */
bool room_for(uint64_t bytes);

/* The part of room_for() about control groups; list and root stand for
 * /proc/self/cgroup and /sys/fs/cgroup. */
bool room_in_groups(const char *list, const char *root, uint64_t bytes);

#endif
