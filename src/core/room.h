/* SPDX-License-Identifier: BSD-2-Clause */
/* room.h - what the rooms above core keep for each NIC.  A room has one struct room_key:
 * under it the room puts its state when it opens, and finds it again in each core.  Core
 * knows none of the rooms. */
#ifndef CORE_ROOM_H
#define CORE_ROOM_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/core.h"

struct room_key {
	_Atomic uint32_t n; /* in core->kept[]; 0: of a room that was never opened */
};

void room_put(struct core *core, struct room_key *p, void *own);

static inline void *room_get(const struct core *core, const struct room_key *p)
{
	return core->kept[atomic_load_explicit(&p->n, memory_order_relaxed)];
}

#endif
