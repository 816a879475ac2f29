/* SPDX-License-Identifier: BSD-2-Clause */
/* room.h - may this process have more memory, without anybody being killed for it? */
#ifndef DIRECT_ROOM_H
#define DIRECT_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/* So many bytes more than it has, all of them written to: there is address space, the
 * machine has them, and the limits of its control groups, as far as it sees them. Nothing
 * is allocated. */
bool room_for(uint64_t bytes);

/* The same of control groups alone: /proc/self/cgroup and /sys/fs/cgroup are these. */
bool room_in_groups(const char *list, const char *root, uint64_t bytes);

#endif
