/* SPDX-License-Identifier: BSD-2-Clause */
/* counts.h - how many verbs objects exist, of those types that have a limit and no table.
 * Any thread may count.
 */
#ifndef VERBS_COUNTS_H
#define VERBS_COUNTS_H

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct counts {
	_Atomic uint32_t pds, mrs, mws, ahs, cqs; /* caps.max_pd, ... */
	_Atomic size_t dm_bytes;  /* device memory in use, caps.max_dm at most */
	_Atomic size_t pinned;	  /* pages of regions: verbs/like.h */
	_Atomic uint32_t handles; /* the last handle given */
};

/* Counts one more object unless max exist. Returns 0 or -ENOMEM. */
static inline int count_up(_Atomic uint32_t *n, uint32_t max)
{
	if (atomic_fetch_add_explicit(n, 1, memory_order_relaxed) < max)
		return 0;
	atomic_fetch_sub_explicit(n, 1, memory_order_relaxed);
	return -ENOMEM;
}

static inline void count_down(_Atomic uint32_t *n)
{
	atomic_fetch_sub_explicit(n, 1, memory_order_relaxed);
}

#endif
