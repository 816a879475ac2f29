/* SPDX-License-Identifier: BSD-2-Clause */
/* lock.h - locks with contracts that clang checks (-Wthread-safety).
 *
 * A lock is one word and a futex.  Taking or giving a free lock is one atomic
 * instruction, inline, since each message needs a dozen of them.  A thread that must wait
 * spins for a moment first, since critical sections on the fast path are shorter than a
 * context switch.
 *
 * Taking, trying (even in vain) and giving are seq_cst.  So of two threads, one that
 * publishes work and then tries the lock and one that gives the lock and then looks for
 * work, at least one sees the other. */
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

enum { LOCK_FREE, LOCK_HELD, LOCK_AWAITED }; /* LOCK_AWAITED: held, and a thread sleeps */

struct CAPABILITY("lock") lock {
	_Atomic uint32_t word;
};

/* For critical sections of a few loads and stores, or where one thread meets another
 * rarely.  Taking a free one is an atomic instruction, giving it a store.  A thread that
 * must wait spins for a moment, then sleeps for one, again and again: it is never woken.
 */
struct CAPABILITY("lock") brief_lock {
	atomic_bool held;
};

/* Lets threads sleep until a condition changes that a lock guards. */
struct lock_cond {
	_Atomic uint32_t changes;
};

/* Pauses between two looks at a word that another thread is about to change. */
static inline void lock_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

void lock_wait(struct lock *l); /* slow paths of lock_take() and lock_give() */
void lock_wake(struct lock *l);
/* Waits for the lock in at most `naps` sleeps of some 50 us.  Returns false if other
 * threads got the lock each time. */
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

/* Returns the word: LOCK_FREE or another value.  It is a read-modify-write, so a thread
 * that takes the lock after it sees what the caller wrote before it. */
static inline uint32_t lock_look(struct lock *l)
{
	return atomic_fetch_or(&l->word, 0);
}

/* Does a thread sleep until l, which the caller has, is given?  True also for a while
 * after one has slept. */
static inline bool lock_is_awaited(struct lock *l) REQUIRES(*l)
{
	return atomic_load_explicit(&l->word, memory_order_relaxed) == LOCK_AWAITED;
}

static inline NO_TSA void lock_take(struct lock *l) ACQUIRES(*l)
{
	if (!lock_try(l))
		lock_wait(l);
}

/* For a signal handler, whose thread may hold the lock: is it free, or soon?  Then its
 * holder, if it has one, is another thread. */
bool lock_comes_free(const struct lock *l);

/* How long a thread waits for a lock before it goes on without it: fork does so in a
 * signal handler, as its own thread may hold the lock, or another that the holder waits
 * for. */
enum lock_how { LOCK_SURELY, LOCK_BRIEFLY, LOCK_IF_FREE };

bool lock_get(struct lock *l, enum lock_how how) TRY_ACQUIRES(true, *l);

static inline NO_TSA void lock_give(struct lock *l) RELEASES(*l)
{
	if (atomic_exchange(&l->word, LOCK_FREE) == LOCK_AWAITED)
		lock_wake(l);
}

/* A full barrier between what this thread stored before it took or gave a lock and what
 * it loads from here on.  On x86 the lock's instruction is that barrier. */
static inline void lock_fence(void)
{
#if defined(__x86_64__) || defined(__i386__)
	atomic_signal_fence(memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

void brief_wait(struct brief_lock *l); /* slow path of brief_take() */

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

bool brief_comes_free(const struct brief_lock *l); /* as lock_comes_free() */

static inline NO_TSA void brief_give(struct brief_lock *l) RELEASES(*l)
{
	atomic_store_explicit(&l->held, false, memory_order_release);
}

/* Gives l, sleeps until lock_changed() is called, or for less, and takes l. */
void lock_sleep(struct lock *l, struct lock_cond *c) REQUIRES(*l);
/* lock_sleep() for a second at most. */
void lock_nap(struct lock *l, struct lock_cond *c) REQUIRES(*l);
/* Sleeps until a change, if there was none since `seen` was read; may return earlier. */
void lock_await(struct lock_cond *c, uint32_t seen);
void lock_changed(struct lock_cond *c); /* wakes all threads */

#endif
