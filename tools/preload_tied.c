/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_tied.c - knows words by whose pages, and not addresses, threads may sleep:
 * those of objects that were made for several processes, and of calls of futex(2) without
 * FUTEX_PRIVATE_FLAG.  If such a page became a file's, a sleeper would not be found
 * (docs/dev/threads.md).
 */
#include "preload_told.h"

#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGES = 256, SLEEPERS = 256 };

/* Pages with objects; 0: free.  They are never taken out, as memory may be freed without
 * the object's end. */
static _Atomic uintptr_t page[PAGES];
static _Atomic uintptr_t sleeper[SLEEPERS]; /* the words of calls that last */
static atomic_uint elsewhere;		    /* calls that have no place there */
static atomic_bool full;

static uintptr_t mask(void)
{
	return ~((uintptr_t)getpagesize() - 1);
}

static void tie_page(uintptr_t at)
{
	for (unsigned i = 0; i < PAGES; i++) {
		uintptr_t was = atomic_load(&page[i]);

		if (!was && atomic_compare_exchange_strong(&page[i], &was, at))
			return;
		if (was == at)
			return;
	}
	atomic_store(&full, true);
}

/* Memory that is just becoming a file's is waited for; later it is seen that the object
 * is there. */
static void tie(const void *object, size_t len)
{
	const uintptr_t lo = (uintptr_t)object;

	for (uintptr_t at = lo & mask(); at < lo + len; at += ~mask() + 1)
		tie_page(at);
	end_change(begin_change(lo, len));
}

PUBLIC bool urnic_preload_tied(uintptr_t lo, size_t len)
{
	if (atomic_load(&full) || atomic_load(&elsewhere))
		return true;
	for (unsigned i = 0; i < PAGES; i++)
		if (page[i] && page[i] - (lo & mask()) < len + (lo & ~mask()))
			return true;
	for (unsigned i = 0; i < SLEEPERS; i++)
		if (sleeper[i] && sleeper[i] - lo < len)
			return true;
	return false;
}

/* --- futex(2) ------------------------------------------------------------------ */

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

static bool sleeps(long op)
{
	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_LOCK_PI:
	case FUTEX_WAIT_BITSET:
	case FUTEX_WAIT_REQUEUE_PI:
	case FUTEX_LOCK_PI2:
		return true;
	default:
		return false;
	}
}

static bool moves_sleepers(long op)
{
	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
	case FUTEX_CMP_REQUEUE_PI:
		return true;
	default:
		return false;
	}
}

struct sleep begin_sleep(long op, long word, long to)
{
	struct sleep s = { .at = NULL };

	if (op & FUTEX_PRIVATE_FLAG)
		return s;
	if (moves_sleepers(op))
		tie((const void *)to, sizeof(uint32_t));
	if (!sleeps(op))
		return s;
	if ((op & FUTEX_CMD_MASK) == FUTEX_WAIT_REQUEUE_PI)
		tie((const void *)to, sizeof(uint32_t));
	for (unsigned i = 0; !s.at && i < SLEEPERS; i++) {
		uintptr_t none = 0;

		if (atomic_compare_exchange_strong(&sleeper[i], &none, (uintptr_t)word))
			s.at = &sleeper[i];
	}
	if (!s.at)
		atomic_fetch_add(&elsewhere, 1);
	s.lasts = true;
	end_change(begin_change((uintptr_t)word, sizeof(uint32_t)));
	return s;
}

struct sleep begin_sleep_somewhere(void)
{
	const struct sleep s = { .lasts = true };

	atomic_fetch_add(&elsewhere, 1);
	end_change(begin_change(0, SIZE_MAX));
	return s;
}

void end_sleep(struct sleep s)
{
	if (s.at)
		atomic_store(s.at, 0);
	else if (s.lasts)
		atomic_fetch_sub(&elsewhere, 1);
}

void forget_sleepers(void)
{
	for (unsigned i = 0; i < SLEEPERS; i++)
		atomic_store(&sleeper[i], 0);
	atomic_store(&elsewhere, 0);
}

/* --- objects ------------------------------------------------------------------- */

PUBLIC int sem_init(sem_t *sem, int shared, unsigned value)
{
	int (*fn)(sem_t *, int, unsigned);

	if (shared)
		tie(sem, sizeof(*sem));
	*(void **)&fn = libcs(CALLED_sem_init);
	return fn ? fn(sem, shared, value) : -1;
}

PUBLIC int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr)
{
	int (*fn)(pthread_mutex_t *, const pthread_mutexattr_t *), shared = 0;

	if (attr && !pthread_mutexattr_getpshared(attr, &shared) && shared)
		tie(m, sizeof(*m));
	*(void **)&fn = libcs(CALLED_pthread_mutex_init);
	return fn ? fn(m, attr) : ENOSYS;
}

PUBLIC int pthread_cond_init(pthread_cond_t *restrict c,
			     const pthread_condattr_t *restrict attr)
{
	int (*fn)(pthread_cond_t *, const pthread_condattr_t *), shared = 0;

	if (attr && !pthread_condattr_getpshared(attr, &shared) && shared)
		tie(c, sizeof(*c));
	*(void **)&fn = libcs(CALLED_pthread_cond_init);
	return fn ? fn(c, attr) : ENOSYS;
}

PUBLIC int pthread_rwlock_init(pthread_rwlock_t *restrict l,
			       const pthread_rwlockattr_t *restrict attr)
{
	int (*fn)(pthread_rwlock_t *, const pthread_rwlockattr_t *), shared = 0;

	if (attr && !pthread_rwlockattr_getpshared(attr, &shared) && shared)
		tie(l, sizeof(*l));
	*(void **)&fn = libcs(CALLED_pthread_rwlock_init);
	return fn ? fn(l, attr) : ENOSYS;
}

PUBLIC int pthread_barrier_init(pthread_barrier_t *restrict b,
				const pthread_barrierattr_t *restrict attr, unsigned n)
{
	int (*fn)(pthread_barrier_t *, const pthread_barrierattr_t *, unsigned),
		shared = 0;

	if (attr && !pthread_barrierattr_getpshared(attr, &shared) && shared)
		tie(b, sizeof(*b));
	*(void **)&fn = libcs(CALLED_pthread_barrier_init);
	return fn ? fn(b, attr, n) : ENOSYS;
}
