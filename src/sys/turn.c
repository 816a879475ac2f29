/* SPDX-License-Identifier: BSD-2-Clause */
/* turn.c - the engine's turn; see turn.h. */
#include "sys/turn.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sys/cancel.h"
#include "sys/guard.h"

void turn_init(struct turn *t)
{
	lock_init(&t->lock);
	atomic_init(&t->ended, 0);
	t->prolonged = false;
	turn_forked(t);
}

void turn_forked(struct turn *t)
{
	atomic_init(&t->takers, 0);
	atomic_init(&t->came, 0);
	atomic_init(&t->served.changes, 0);
}

/* A signal handler may poll while its own thread holds the turn: then the try fails, as
 * for any other thread. */
NO_TSA bool turn_try_brief(struct turn *t)
{
	if (atomic_load_explicit(&t->takers, memory_order_relaxed) != 0)
		return false;
	if (!lock_try(&t->lock))
		return false;
	/* The holder may touch application memory that has been unmapped. */
	guard_enter();
	return true;
}

void turn_prolong(struct turn *t)
{
	if (t->prolonged)
		return;
	t->cancel = cancel_hold();
	t->prolonged = true;
}

NO_TSA bool turn_try(struct turn *t)
{
	if (!turn_try_brief(t))
		return false;
	turn_prolong(t);
	return true;
}

/* Tries as a poller does, but sleeps in between.  Returns false if it was too late each
 * time. */
NO_TSA static bool try_for_a_while(struct turn *t)
{
	enum { NAPS = 8, NAP_NS = 50000 };

	for (unsigned i = 0; i < NAPS; i++) {
		if (atomic_load_explicit(&t->takers, memory_order_relaxed) != 0)
			turn_nap(NAP_NS);
		else if (lock_try(&t->lock) || lock_wait_for(&t->lock, 1))
			return true;
	}
	return false;
}

/* Waits behind the takers that came before, while all tries fail: so nobody competes with
 * the first taker for the lock. */
NO_TSA static void queue_up(struct turn *t)
{
	uint32_t mine, now;

	mine = atomic_fetch_add_explicit(&t->came, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&t->takers, 1, memory_order_release);
	while ((now = atomic_load(&t->served.changes)) != mine)
		lock_await(&t->served, now);
	lock_take(&t->lock);
	lock_changed(&t->served);
	atomic_fetch_sub_explicit(&t->takers, 1, memory_order_relaxed);
}

NO_TSA void turn_take(struct turn *t)
{
	if (!try_for_a_while(t))
		queue_up(t);
	guard_enter();
	turn_prolong(t);
}

NO_TSA bool turn_get(struct turn *t, enum lock_how how)
{
	if (how == LOCK_SURELY) {
		turn_take(t);
		return true;
	}
	if (!lock_get(&t->lock, guard_inside() ? LOCK_IF_FREE : how))
		return false;
	guard_enter();
	turn_prolong(t);
	return true;
}

NO_TSA void turn_give(struct turn *t)
{
	uint32_t ended = atomic_load_explicit(&t->ended, memory_order_relaxed);
	const bool prolonged = t->prolonged;
	const int cancel = t->cancel;

	t->prolonged = false;
	atomic_store_explicit(&t->ended, ended + 1, memory_order_release);
	lock_give(&t->lock);
	guard_leave();
	if (prolonged)
		cancel_let(cancel);
}

void turn_nap(long ns)
{
	int saved = errno;

	/* A direct system call: polling must be no cancellation point. */
	syscall(SYS_nanosleep, &(struct timespec){ .tv_nsec = ns }, NULL);
	errno = saved;
}

void turn_pass(struct turn *t)
{
	enum { SPINS = 100, NAP_NS = 20000 }; /* 2-4 us: most turns end in that time */
	uint32_t ended;

	/* If the lock is free here, a thread that takes it later sees what the caller
	 * wrote before. */
	if (lock_look(&t->lock) == LOCK_FREE)
		return;
	ended = atomic_load_explicit(&t->ended, memory_order_acquire);
	for (int i = 0; atomic_load_explicit(&t->ended, memory_order_acquire) == ended &&
			lock_look(&t->lock) != LOCK_FREE;
	     i++) {
		if (i < SPINS)
			lock_pause();
		else
			turn_nap(NAP_NS);
	}
}
