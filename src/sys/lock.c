/* SPDX-License-Identifier: BSD-2-Clause */
/* lock.c - the slow paths of lock.h. */
#include "sys/lock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	SPINS = 100, /* some 2-4 us: less than a sleep costs */
	NAP_NS = 50000,
};

static void futex(_Atomic uint32_t *word, int op, uint32_t value,
		  const struct timespec *most)
{
	int saved = errno;

	syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, most, NULL, 0);
	errno = saved;
}

NO_TSA static bool spin(struct lock *l)
{
	for (int i = 0; i < SPINS; i++) {
		if (atomic_load_explicit(&l->word, memory_order_relaxed) == LOCK_FREE &&
		    lock_try(l))
			return true;
		lock_pause();
	}
	return false;
}

NO_TSA bool lock_wait_for(struct lock *l, unsigned naps)
{
	const struct timespec most = { .tv_nsec = NAP_NS };

	if (spin(l))
		return true;
	for (; atomic_exchange(&l->word, LOCK_AWAITED) != LOCK_FREE; naps--) {
		if (naps == 0)
			return false;
		futex(&l->word, FUTEX_WAIT, LOCK_AWAITED, &most);
	}
	return true;
}

static bool is_free(const void *l)
{
	const struct lock *lock = l;

	return atomic_load_explicit(&lock->word, memory_order_relaxed) == LOCK_FREE;
}

static bool brief_is_free(const void *l)
{
	const struct brief_lock *lock = l;

	return !atomic_load_explicit(&lock->held, memory_order_relaxed);
}

static bool comes_free(bool (*free_now)(const void *l), const void *l)
{
	for (int i = 0; i < SPINS; i++) {
		if (free_now(l))
			return true;
		lock_pause();
	}
	return false;
}

bool lock_comes_free(const struct lock *l)
{
	return comes_free(is_free, l);
}

bool brief_comes_free(const struct brief_lock *l)
{
	return comes_free(brief_is_free, l);
}

NO_TSA bool lock_get(struct lock *l, enum lock_how how)
{
	enum { NAPS = 40 }; /* some 2 to 4 ms */

	if (lock_try(l))
		return true;
	switch (how) {
	case LOCK_SURELY:
		lock_wait(l);
		return true;
	case LOCK_BRIEFLY:
		return lock_wait_for(l, NAPS);
	case LOCK_IF_FREE:
		return false;
	}
	return false;
}

NO_TSA void lock_wait(struct lock *l)
{
	if (spin(l))
		return;
	/* Other threads may still sleep when this one gets the lock, so it stays
	 * LOCK_AWAITED. */
	while (atomic_exchange(&l->word, LOCK_AWAITED) != LOCK_FREE)
		futex(&l->word, FUTEX_WAIT, LOCK_AWAITED, NULL);
}

NO_TSA void brief_wait(struct brief_lock *l)
{
	int saved = errno;

	for (unsigned i = 1;
	     atomic_load_explicit(&l->held, memory_order_relaxed) || !brief_try(l); i++) {
		lock_pause();
		/* A direct system call: libc's would be a cancellation point. */
		if (i % SPINS == 0)
			syscall(SYS_nanosleep, &(struct timespec){ .tv_nsec = NAP_NS },
				NULL);
	}
	errno = saved;
}

/* The lock's memory may be freed by now: a thread that sleeps at that address wakes in
 * vain. */
void lock_wake(struct lock *l)
{
	futex(&l->word, FUTEX_WAKE, 1, NULL);
}

static NO_TSA void sleep_for(struct lock *l, struct lock_cond *c,
			     const struct timespec *most)
{
	uint32_t seen = atomic_load(&c->changes);

	lock_give(l);
	futex(&c->changes, FUTEX_WAIT, seen, most);
	lock_take(l);
}

NO_TSA void lock_sleep(struct lock *l, struct lock_cond *c)
{
	sleep_for(l, c, NULL);
}

NO_TSA void lock_nap(struct lock *l, struct lock_cond *c)
{
	sleep_for(l, c, &(struct timespec){ .tv_sec = 1 });
}

void lock_await(struct lock_cond *c, uint32_t seen)
{
	futex(&c->changes, FUTEX_WAIT, seen, NULL);
}

void lock_changed(struct lock_cond *c)
{
	atomic_fetch_add(&c->changes, 1);
	futex(&c->changes, FUTEX_WAKE, INT_MAX, NULL);
}
