/* SPDX-License-Identifier: BSD-2-Clause */
/* held.h - a call that cannot be cancelled (pthread_cancel) but while it sleeps.
 *
 * It may hold locks across system calls, and what it has made or taken would be lost.
 * So it begins by held_begin() and ends by held_end(); calls may be nested.  Where it
 * sleeps for the program's sake, holding nothing, it is as the program has it.  (A call
 * that begins by cancel_hold() cannot be cancelled even there.) */
#ifndef SYS_HELD_H
#define SYS_HELD_H

#include "sys/cancel.h"

/* How many calls the thread is inside of, and what it was before the first. */
struct held {
	int depth, was;
};
extern __thread struct held held __attribute__((tls_model("initial-exec")));

static inline void held_begin(void)
{
	if (!held.depth++)
		held.was = cancel_hold();
}

static inline void held_end(void)
{
	if (!--held.depth)
		cancel_let(held.was);
}

/* What it was comes back after the sleep. */
static inline struct held held_sleep(void)
{
	struct held self = held;

	held.depth = 0;
	if (self.depth)
		cancel_let(self.was);
	return self;
}

static inline void held_wake(struct held self)
{
	if (self.depth)
		cancel_hold();
	held = self;
}

#endif
