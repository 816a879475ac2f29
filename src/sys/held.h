/* SPDX-License-Identifier: BSD-2-Clause */
/* held.h - marks calls that can be cancelled (pthread_cancel) only while they sleep.
 *
 * Such a call may hold locks across system calls, and cancellation would lose what it has
 * made or taken.  So it begins with held_begin() and ends with held_end(); calls may
 * nest.  Around a sleep for the program's sake, in which it holds nothing, held_sleep()
 * restores the program's own cancellation state. (A call that begins with cancel_hold()
 * cannot be cancelled even there.) */
#ifndef SYS_HELD_H
#define SYS_HELD_H

#include <pthread.h>
#include <stdbool.h>

#include "sys/cancel.h"

/* The number of such calls that the thread is inside, and its cancellation state before
 * the first. */
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

/* Takes l before a fork. A signal handler may fork, too; if it has interrupted a call of
 * its thread, l may be the thread's own, and is only tried. Returns whether it was
 * taken; in the child it is made anew. */
static inline bool held_fork(pthread_mutex_t *l)
{
	return !(held.depth ? pthread_mutex_trylock(l) : pthread_mutex_lock(l));
}

/* Before the sleep.  The result is for held_wake(). */
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
