/* SPDX-License-Identifier: BSD-2-Clause */
/* inside.h - how many of our calls this thread is inside of: 0 or 1, and more in a signal
 * handler that has interrupted one.  What such a handler calls must wait for no lock,
 * since its own thread may hold it, or hold another that the lock's holder waits for. */
#ifndef SYS_INSIDE_H
#define SYS_INSIDE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "sys/lock.h"

/* Initial-exec, since the first access to a lazily allocated variable calls malloc(). */
extern __thread int inside_calls __attribute__((tls_model("initial-exec")));
/* inside_held: the value of inside_calls in the call that has held off cancellation, or
 * 0.  inside_was: the thread's cancellation state before that call. */
extern __thread int inside_held __attribute__((tls_model("initial-exec")));
extern __thread int inside_was __attribute__((tls_model("initial-exec")));

static inline void inside_begin(void)
{
	inside_calls++;
	atomic_signal_fence(memory_order_seq_cst);
}

static inline void inside_end(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	inside_calls--;
}

/* A thread in the middle of a call that holds nothing at the moment. */
struct inside {
	int calls, held, was;
};

/* From here until inside_resume() the program may make calls of any kind: a handler while
 * the thread sleeps, or a function of the program's that we call. */
static inline struct inside inside_pause(void)
{
	const struct inside in = { inside_calls, inside_held, inside_was };

	atomic_signal_fence(memory_order_seq_cst);
	inside_held = 0;
	atomic_signal_fence(memory_order_seq_cst);
	inside_calls = 0;
	atomic_signal_fence(memory_order_seq_cst);
	return in;
}

/* In this order, as a handler's call keeps inside_was while inside_held is set. */
static inline void inside_resume(struct inside in)
{
	atomic_signal_fence(memory_order_seq_cst);
	inside_calls = in.calls;
	atomic_signal_fence(memory_order_seq_cst);
	inside_held = in.held;
	atomic_signal_fence(memory_order_seq_cst);
	inside_was = in.was;
}

/* Takes l. In a handler that has interrupted another call it does so only if the lock is
 * free, or soon, and returns false otherwise. */
static inline NO_TSA bool inside_take(struct lock *l) TRY_ACQUIRES(true, *l)
{
	if (__builtin_expect(inside_calls > 1, 0))
		return lock_wait_for(l, 0);
	lock_take(l);
	return true;
}

#endif
