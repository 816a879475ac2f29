/* SPDX-License-Identifier: BSD-2-Clause */
/* one_thread.c - preloaded into unit tests that must have only one thread: a second
 * thread ends the test.  Programs that a test starts do not inherit the library. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void here_only(void)
{
	unsetenv("LD_PRELOAD");
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
							  const pthread_attr_t *attr,
							  void *(*fn)(void *), void *arg)
{
	(void)thread;
	(void)attr;
	(void)fn;
	(void)arg;
	fprintf(stderr,
		"%s starts a thread: it is to stand in with_threads of meson.build, so "
		"that ThreadSanitizer sees it, too\n",
		program_invocation_short_name);
	abort();
}
