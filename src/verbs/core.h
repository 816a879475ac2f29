/* SPDX-License-Identifier: BSD-2-Clause */
/* core.h - one NIC as the verbs objects see it: the tables that its devices
 * share.  A process has one; a unit test has as many as it likes. */
#ifndef VERBS_CORE_H
#define VERBS_CORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/list.h"
#include "sys/lock.h"
#include "sys/source.h"
#include "sys/turn.h"
#include "verbs/counts.h"
#include "verbs/mkey.h"
#include "verbs/null_memory.h"
#include "verbs/numbers.h"
#include "verbs/round.h"
#include "verbs/xrc_state.h"

struct exports;
struct heap;
struct cq_hooks;
struct order;
struct qp;

enum { CORE_ROOMS = 8 /* rooms that may keep state here, plus 1 */ };

/* A member whose type has a header of its own is used by means of that header. */
struct core {
	struct turn turn; /* see sys/turn.h */
	struct lock lock; /* the lists below: adding, removing */
	uint16_t slot;	  /* this NIC's number on the host, 1..1022 */
	/* QPs with work (verbs/due.h): a stack, and those taken from it, oldest first,
	 * which only the turn's holder changes */
	_Atomic(struct qp *) due, taken;
	struct heap *timers;   /* the engine's heap of qp->sched.timer, or NULL */
	struct round round;    /* under the turn */
	uint64_t recv_wait_ns; /* the longest wait for a receive (verbs/await.h); 0: none
				*/

	/* Objects: */
	struct numbers qps, srqs; /* under the turn */
	struct mkeys mkeys;
	struct counts counts;
	struct null_memory null;
	struct list pd_list, dm_list, mcast, contexts;
	struct list windows; /* under the turn: verbs/mr.h */
	struct list gsis;    /* verbs/gsi.h; written under the turn */
	struct xrc_state xrc;
	struct list sleepers; /* channels that verbs/asleep.c watches */
	struct source asleep; /* looks at them */

	/* For the rooms above core: */
	void *kept[CORE_ROOMS];	 /* their state: verbs/room.h */
	struct exports *exports; /* the table for other processes of the host
				  * (verbs/exports.h), or NULL */
	struct region_hooks region;
	struct order *order;		 /* verbs/order.h, or NULL */
	const struct cq_hooks *cq_hooks; /* of new CQs, or NULL */
	bool dead;			 /* descriptors lost, or forked */
	bool leaving; /* in exit(): a locked QP is never unlocked again */
};

/* Tells clang's analysis that the turn is held: for functions called through a table,
 * and where the core is reached under another name. */
static inline void turn_is_held(const struct core *core) ASSERTS(core->turn)
{
	(void)core;
}

int core_init(struct core *core, uint16_t slot); /* 0 or -ENOMEM */
void core_fini(struct core *core);		 /* all its objects must be gone */
/* In the child of a fork: other threads may have held the locks, but for the turn's. */
void core_forked(struct core *core);

/* Returns a new number for the handle fields that programs see. */
static inline uint32_t core_handle(struct core *core)
{
	return 1 +
	       atomic_fetch_add_explicit(&core->counts.handles, 1, memory_order_relaxed);
}

#endif
