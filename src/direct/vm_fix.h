/* SPDX-License-Identifier: BSD-2-Clause */
/* vm_fix.h - for unit tests: two processes that reach each other's memory directly. */
#ifndef DIRECT_VM_FIX_H
#define DIRECT_VM_FIX_H

#include "shm/fix.h"

static const struct sim_conf direct = { .pipe_only = false,
					.timeout = 10,
					.retry_cnt = 1 };

/* Returns the number of slots that A has filled since the last call. */
static inline uint32_t written(struct fix *f, uint32_t *since)
{
	uint32_t before = *since;

	*since = pair_peer(f, 0)->out.head;
	return *since - before;
}

#endif
