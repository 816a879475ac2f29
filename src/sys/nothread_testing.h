/* SPDX-License-Identifier: BSD-2-Clause */
/* nothread_testing.h - for unit tests: threads that cannot be started, as at
 * RLIMIT_NPROC.  The program's pthread_create() is this one. */
#ifndef SYS_NOTHREAD_TESTING_H
#define SYS_NOTHREAD_TESTING_H

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

static _Atomic bool nothread;

int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *),
		   void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	void *sym = dlsym(RTLD_NEXT, "pthread_create");

	memcpy(&real, &sym, sizeof(real));
	return nothread ? EAGAIN : real(t, attr, fn, arg);
}

#endif
