/* SPDX-License-Identifier: BSD-2-Clause */
/* room.c - see room.h. */
#include "verbs/room.h"

#include <assert.h>

/* Returns the room's number. Two threads may each open a core at once: the first to
 * store a number decides. */
static uint32_t key_number(struct room_key *p)
{
	static _Atomic uint32_t last;
	uint32_t n = atomic_load(&p->n), mine;

	if (n)
		return n;
	mine = atomic_fetch_add(&last, 1) + 1;
	return atomic_compare_exchange_strong(&p->n, &n, mine) ? mine : n;
}

void room_put(struct core *core, struct room_key *p, void *own)
{
	uint32_t n = key_number(p);

	assert(n < CORE_ROOMS);
	core->kept[n] = own;
}
