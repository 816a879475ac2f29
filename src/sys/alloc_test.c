/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory is zero, and a handler may fork while the thread that it has interrupted
 * allocates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/alloc.h"

enum { FORKS = 300 };

static void memory_is_zero(void **state)
{
	(void)state;
	for (size_t size = 1; size < 1 << 20; size *= 3) {
		unsigned char *p = turn_alloc(size);

		assert_non_null(p);
		for (size_t i = 0; i < size; i++)
			assert_int_equal(p[i], 0);
		memset(p, 1, size);
		turn_free(p);
	}
	turn_free(NULL);
}

#ifndef __SANITIZE_THREAD__ /* it hangs in a fork() that interrupts its malloc() */
static volatile sig_atomic_t forks;

static void on_alarm(int sig)
{
	const pid_t child = fork();
	int status;

	(void)sig;
	if (child == 0)
		_exit(0);
	if (child > 0 && waitpid(child, &status, 0) == child && status == 0)
		forks++;
}

/* The other thread interrupts the first, once each time that it is asked for.  fork()
 * takes malloc()'s locks only where there is another thread. */
static _Atomic int asked;

static void *interrupt(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	for (int n = 1; n <= FORKS; n++) {
		while (atomic_load(&asked) < n)
			sched_yield();
		pthread_kill(*(pthread_t *)arg, SIGALRM);
	}
	return NULL;
}

/* Allocates until a handler has forked once. */
static void allocate_until(int n)
{
	while (forks < n) {
		unsigned char *p = turn_alloc(100000);

		assert_non_null(p);
		assert_int_equal(p[99999], 0);
		turn_free(p);
	}
}

static void a_handler_may_fork(void **state)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	pthread_t self = pthread_self(), other;

	(void)state;
	assert_int_equal(sigaction(SIGALRM, &sa, NULL), 0);
	assert_int_equal(pthread_create(&other, NULL, interrupt, &self), 0);
	for (int n = 1; n <= FORKS; n++) {
		atomic_store(&asked, n);
		allocate_until(n);
	}
	assert_int_equal(pthread_join(other, NULL), 0);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_zero),
#ifndef __SANITIZE_THREAD__
		cmocka_unit_test(a_handler_may_fork),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
