/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.h - how many threads of this process are urnic's own? */
#ifndef SYS_THREADS_H
#define SYS_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* As pthread_create(), of a thread of ours. */
int threads_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *),
		   void *arg);
/* The calling thread is in there. */
bool threads_creating(void);

/* There is one more, or soon one less.  No call may come too early: a thread says so
 * itself, first thing and last, or the one that has started it does, and will end it. */
void threads_begin(void);
void threads_end(void);
void threads_forked(void); /* none of them is in the child */

/* How many there are; a thread that starts or ends may be missing. */
unsigned threads_own(void);
/* The same, for who counts all threads meanwhile: none has begun or ended between two
 * looks that see the same. */
uint64_t threads_now(void);
unsigned threads_in(uint64_t now);

#endif
