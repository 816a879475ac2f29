/* SPDX-License-Identifier: BSD-2-Clause */
/* held.h - a call of rdma_cm cannot be cancelled (pthread_cancel): it may hold locks
 * across system calls, and what it has made or taken would be lost.  The shell begins
 * and ends each call so; calls may be nested.  Only the wait for an event can be
 * cancelled (cma_channel_wait()), where nothing is held. */
#ifndef RDMACM_HELD_H
#define RDMACM_HELD_H

#include "sys/cancel.h"

/* How many calls the thread is inside of, and what it was before the first. */
struct cma_held {
	int depth, was;
};
extern __thread struct cma_held cma_held;

static inline void cma_hold(void)
{
	if (!cma_held.depth++)
		cma_held.was = cancel_hold();
}

static inline void cma_let(void)
{
	if (!--cma_held.depth)
		cancel_let(cma_held.was);
}

/* While the thread sleeps it is as the program has it: what it was comes back. */
static inline struct cma_held cma_sleep(void)
{
	struct cma_held self = cma_held;

	cma_held.depth = 0;
	if (self.depth)
		cancel_let(self.was);
	return self;
}

static inline void cma_wake(struct cma_held self)
{
	if (self.depth)
		cancel_hold();
	cma_held = self;
}

#endif
