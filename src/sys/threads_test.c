/* SPDX-License-Identifier: BSD-2-Clause */
#include "sys/threads.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool holds(int sig)
{
	sigset_t now;

	assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
	return sigismember(&now, sig);
}

static void *look_at_mask(void *arg)
{
	bool *held = arg;

	for (int sig = 1; sig < 32; sig++)
		held[sig] = holds(sig);
	return arg;
}

/* Whatever its maker holds off, the thread runs no handler of the program's, but a fault
 * of its own, or a system call that a sandbox traps, reaches the handler for it. */
static void our_threads_take_no_signals(void **state)
{
	sigset_t segv;
	bool held[32];
	pthread_t t;

	(void)state;
	sigemptyset(&segv);
	sigaddset(&segv, SIGSEGV);
	pthread_sigmask(SIG_BLOCK, &segv, NULL);
	assert_int_equal(threads_create(&t, NULL, look_at_mask, held), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	for (int sig = 1; sig < 32; sig++)
		assert_int_equal(held[sig], sig != SIGSEGV && sig != SIGBUS &&
						    sig != SIGILL && sig != SIGFPE &&
						    sig != SIGTRAP && sig != SIGSYS &&
						    sig != SIGKILL && sig != SIGSTOP);
	assert_true(holds(SIGSEGV) && !holds(SIGALRM));
	pthread_sigmask(SIG_UNBLOCK, &segv, NULL);
}

static void the_count(void **state)
{
	const unsigned before = threads_own();
	const uint64_t now = threads_now();

	(void)state;
	threads_begin();
	assert_int_equal(threads_own(), before + 1);
	threads_end();
	assert_int_equal(threads_own(), before);
	assert_int_equal(threads_in(threads_now()), before);
	assert_true(threads_now() != now);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(our_threads_take_no_signals),
		cmocka_unit_test(the_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
