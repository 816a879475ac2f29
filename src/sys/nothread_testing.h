/* SPDX-License-Identifier: BSD-2-Clause */
/* nothread_testing.h - for unit tests: threads that cannot be started, as at
 * RLIMIT_NPROC.  It replaces the program's pthread_create(). */
#ifndef SYS_NOTHREAD_TESTING_H
#define SYS_NOTHREAD_TESTING_H

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static struct {
	_Atomic bool on;
	_Atomic unsigned run; /* detached threads that are running */
} nothread;

struct nothread_start {
	void *(*fn)(void *);
	void *arg;
};

static inline void *nothread_run(void *arg)
{
	struct nothread_start s = *(struct nothread_start *)arg;

	free(arg);
	s.arg = s.fn(s.arg);
	nothread.run--;
	return s.arg;
}

int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *),
		   void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	void *sym = dlsym(RTLD_NEXT, "pthread_create");
	struct nothread_start *s = malloc(sizeof(*s));
	int detached = PTHREAD_CREATE_JOINABLE, rc;

	memcpy(&real, &sym, sizeof(real));
	if (attr)
		pthread_attr_getdetachstate(attr, &detached);
	if (!s || nothread.on || detached == PTHREAD_CREATE_JOINABLE) {
		free(s);
		return nothread.on ? EAGAIN : real(t, attr, fn, arg);
	}
	*s = (struct nothread_start){ fn, arg };
	nothread.run++;
	rc = real(t, attr, nothread_run, s);
	if (rc) {
		nothread.run--;
		free(s);
	}
	return rc;
}

/* From now on no thread can be started; waits until no detached thread runs any more. */
static inline void nothread_begin(void)
{
	nothread.on = true;
	while (nothread.run)
		sched_yield();
}

static inline void nothread_end(void)
{
	nothread.on = false;
}

#endif
