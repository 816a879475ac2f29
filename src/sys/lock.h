/* SPDX-License-Identifier: BSD-2-Clause */
/* lock.h - mutexes with contracts that clang checks (-Wthread-safety).
 *
 * A struct lock is a futex mutex that first spins for a moment: critical
 * sections on the fast path are shorter than a context switch.
 */
#ifndef SYS_LOCK_H
#define SYS_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#if defined(__clang__)
#define TSA(x) __attribute__((x))
#else
#define TSA(x)
#endif

#define CAPABILITY(name)	TSA(capability(name))
#define GUARDED_BY(lk)		TSA(guarded_by(lk))
#define REQUIRES(...)		TSA(requires_capability(__VA_ARGS__))
#define ACQUIRES(...)		TSA(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRES(...)	TSA(try_acquire_capability(__VA_ARGS__))
#define RELEASES(...)		TSA(release_capability(__VA_ARGS__))
#define EXCLUDES(...)		TSA(locks_excluded(__VA_ARGS__))
#define NO_TSA			TSA(no_thread_safety_analysis)

struct CAPABILITY("lock") lock { pthread_mutex_t m; };

void lock_init(struct lock *l);
void lock_fini(struct lock *l);
void lock_take(struct lock *l) ACQUIRES(*l);
bool lock_try(struct lock *l) TRY_ACQUIRES(true, *l);
void lock_give(struct lock *l) RELEASES(*l);

#endif
