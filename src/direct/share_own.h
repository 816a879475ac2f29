/* SPDX-License-Identifier: BSD-2-Clause */
/* share_own.h - state common to share.c and retake.c. */
#ifndef DIRECT_SHARE_OWN_H
#define DIRECT_SHARE_OWN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "core/mkey.h"
#include "direct/movable.h"
#include "direct/runs.h"
#include "sys/lock.h"

enum {
	REGIONS = 1024, /* most regions with remote rights at a time */
	PIECES = 16,	/* pieces of a region */
};

extern struct share {
	struct lock lock, forking; /* forking is taken before all other locks */
	bool noticed;		   /* argument of share_start() */
	atomic_bool refused;	   /* no memfds, or share_no_more() */
	struct core *core;	   /* NULL: no core */
	unsigned n, beyond;	   /* regions in the array; regions it has no room
				    * for */
	unsigned moved, looked;
	uint64_t copied; /* bytes copied for children */
	struct extent region[REGIONS];
	uint32_t key[REGIONS]; /* during share_take_back() */
} share;

static inline struct extent extent_of(const struct mkey *mk)
{
	uint64_t lo = (uintptr_t)mk->host;

	return (struct extent){ lo, lo + mk->length };
}

static inline struct extent extent_of_run(const struct swap_run *run)
{
	return (struct extent){ run->lo, run->hi };
}

static inline struct extent extent_at(unsigned i)
{
	return extent_of_run(runs_at(i));
}

/* Is the extent the program's memory and not our NIC? (A program may register all of
 * its heap.) */
bool share_is_the_programs(const struct core *core, const struct extent *e);
/* Is this the only thread that touches memory? */
bool share_is_alone(void);
/* Makes run i private. False: it is still file pages. core: NULL if there is no NIC. */
bool share_run_in(struct core *core, unsigned i);

#endif
