/* SPDX-License-Identifier: BSD-2-Clause */
/* room.h - per-NIC state of the rooms (folders) above core. A room has one struct
 * room_key: it stores its state under the key when it opens, and finds it by the key
 * in each core. Core knows none of the rooms. */
#ifndef VERBS_ROOM_H
#define VERBS_ROOM_H

#include <stdatomic.h>
#include <stdint.h>

#include "verbs/core.h"

struct room_key {
	_Atomic uint32_t n; /* index in core->kept[]; 0: the room was never opened */
};

void room_put(struct core *core, struct room_key *p, void *own);

static inline void *room_get(const struct core *core, const struct room_key *p)
{
	return core->kept[atomic_load_explicit(&p->n, memory_order_relaxed)];
}

#endif
