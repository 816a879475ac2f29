/* SPDX-License-Identifier: BSD-2-Clause */
/* share_own.h - state common to share.c and retake.c. */
#ifndef DIRECT_SHARE_OWN_H
#define DIRECT_SHARE_OWN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "direct/movable.h"
#include "direct/runs.h"
#include "sys/clock.h"
#include "sys/lock.h"
#include "verbs/core.h"
#include "verbs/mkey.h"

enum {
	REGIONS = 4096, /* most regions with remote rights at a time */
	PIECES = 16,	/* pieces of a region */
};

/* What has cost time for nothing, time that grows with the process (smaps), is not done
 * again before as much has passed as it took; the next times twice, four times ... 64
 * times as much. */
struct respite {
	uint64_t until;
	unsigned times; /* 0: the next one costs no wait */
};

static inline bool respite_is_over(const struct respite *r)
{
	return !r->until || clock_ns() >= r->until;
}

static inline void respite_begin(struct respite *r, uint64_t since)
{
	const uint64_t now = clock_ns();

	r->until = now + ((now - since) << r->times) - (now - since);
	r->times += r->times < 6;
}

extern struct share {
	struct lock lock;
	bool noticed;	     /* argument of share_start() */
	atomic_bool threads; /* share_beside_threads() */
	atomic_bool refused; /* no memfds, or share_no_more() */
	struct core *core;   /* NULL: no core */
	unsigned n, beyond;  /* regions in the array; regions it has no room
			      * for */
	unsigned moved, looked;
	uint64_t spent;		 /* by moves beside threads, ns */
	_Atomic uint64_t copied; /* bytes copied for children */
	struct respite looks;	 /* for unmapped runs */
	struct {
		struct respite end, take; /* swap_back(), share_take_back() */
	} tried[RUNS];			  /* of each run */
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
/* Makes run i private. how: of enum swap_how. False: it is still file pages. core: NULL
 * if there is no NIC. */
bool share_run_in(struct core *core, unsigned i, unsigned how);

#endif
