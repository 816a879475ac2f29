/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.h - counts the threads of this process that are urnic's own. */
#ifndef SYS_THREADS_H
#define SYS_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* As pthread_create(), for a thread of ours, which holds signals_most() off, and no more,
 * whatever its maker does: a fault of the thread itself, or a system call that a sandbox
 * traps, reaches its handler; so may one of these signals that kill() sends. */
int threads_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *),
		   void *arg);
/* Is the calling thread inside threads_create()? */
bool threads_creating(void);

/* Counts one more thread of ours, or one less.  Neither may be called before the thread
 * exists: the thread itself calls them, first and last, or the thread that has started it
 * and will end it does. */
void threads_begin(void);
void threads_end(void);
void threads_forked(void); /* in the child of a fork, which has none of them */

/* The number of our threads; one that is starting or ending may be missing. */
unsigned threads_own(void);
/* The number of our threads, for a caller that counts all threads meanwhile: if two calls
 * return the same value, no thread of ours has begun or ended in between.  threads_in()
 * extracts the number. */
uint64_t threads_now(void);
unsigned threads_in(uint64_t now);

#endif
