/* SPDX-License-Identifier: BSD-2-Clause */
/* lock.h - locks with contracts that clang checks (-Wthread-safety).
 *
 * A lock is one word and a futex.  To take and to give a free one is a single
 * atomic instruction, inline: there are a dozen of them in every message.  Who
 * has to wait spins for a moment first, since critical sections on the fast
 * path are shorter than a context switch.
 *
 * Taking, trying (also in vain) and giving are seq_cst.  So "publish work, then
 * try for the lock" and "give the lock, then look for work" cannot both miss
 * each other.
 */
#ifndef SYS_LOCK_H
#define SYS_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__clang__)
#define TSA(x) __attribute__((x))
#else
#define TSA(x)
#endif

#define CAPABILITY(name)  TSA(capability(name))
#define GUARDED_BY(lk)	  TSA(guarded_by(lk))
#define REQUIRES(...)	  TSA(requires_capability(__VA_ARGS__))
#define ACQUIRES(...)	  TSA(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRES(...) TSA(try_acquire_capability(__VA_ARGS__))
#define RELEASES(...)	  TSA(release_capability(__VA_ARGS__))
#define ASSERTS(...)	  TSA(assert_capability(__VA_ARGS__))
#define EXCLUDES(...)	  TSA(locks_excluded(__VA_ARGS__))
#define NO_TSA		  TSA(no_thread_safety_analysis)

enum { LOCK_FREE, LOCK_HELD, LOCK_AWAITED }; /* the last: somebody sleeps */

struct CAPABILITY("lock") lock {
	_Atomic uint32_t word;
};

/* For a few loads and stores, each of which has the lock for itself: to take a free one
 * is an atomic instruction, to give it a store.  Who has to wait spins for a moment, then
 * sleeps for one, again and again: nobody is woken. */
struct CAPABILITY("lock") brief_lock {
	atomic_bool held;
};

/* Threads that sleep until something changes that a lock guards. */
struct lock_cond {
	_Atomic uint32_t changes;
};

/* Between two looks at what another thread is about to change. */
static inline void lock_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

void lock_wait(struct lock *l); /* the slow ways */
void lock_wake(struct lock *l);
/* Sleep so often at most, some 50 us each.  False: others were quicker. */
bool lock_wait_for(struct lock *l, unsigned naps) TRY_ACQUIRES(true, *l);

static inline void lock_init(struct lock *l)
{
	atomic_init(&l->word, LOCK_FREE);
}

static inline NO_TSA bool lock_try(struct lock *l) TRY_ACQUIRES(true, *l)
{
	uint32_t was = LOCK_FREE;

	return atomic_compare_exchange_strong(&l->word, &was, LOCK_HELD);
}

/* LOCK_FREE or not.  A write that writes nothing: whoever takes the lock after it
 * sees what was written before it. */
static inline uint32_t lock_look(struct lock *l)
{
	return atomic_fetch_or(&l->word, 0);
}

static inline NO_TSA void lock_take(struct lock *l) ACQUIRES(*l)
{
	if (!lock_try(l))
		lock_wait(l);
}

static inline NO_TSA void lock_give(struct lock *l) RELEASES(*l)
{
	if (atomic_exchange(&l->word, LOCK_FREE) == LOCK_AWAITED)
		lock_wake(l);
}

void brief_wait(struct brief_lock *l); /* the slow way */

static inline void brief_init(struct brief_lock *l)
{
	atomic_init(&l->held, false);
}

static inline NO_TSA bool brief_try(struct brief_lock *l) TRY_ACQUIRES(true, *l)
{
	return !atomic_exchange_explicit(&l->held, true, memory_order_acquire);
}

static inline NO_TSA void brief_take(struct brief_lock *l) ACQUIRES(*l)
{
	if (__builtin_expect(!brief_try(l), 0))
		brief_wait(l);
}

static inline NO_TSA void brief_give(struct brief_lock *l) RELEASES(*l)
{
	atomic_store_explicit(&l->held, false, memory_order_release);
}

/* Give l, sleep until lock_changed() is called, perhaps less, and take l. */
void lock_sleep(struct lock *l, struct lock_cond *c) REQUIRES(*l);
/* Sleep, if there was no change since seen, until there is one; perhaps less. */
void lock_await(struct lock_cond *c, uint32_t seen);
void lock_changed(struct lock_cond *c); /* wakes all */

#endif
