/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>

#include "sys/inside.h"

static volatile sig_atomic_t seen;

static void on_signal(int sig)
{
	(void)sig;
	inside_begin();
	seen = inside_calls;
	inside_end();
}

static void a_handler_knows_what_it_interrupts(void **state)
{
	(void)state;
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	assert_int_equal(seen, 1);
	inside_begin();
	raise(SIGUSR1);
	assert_int_equal(seen, 2);
	inside_end();
	assert_int_equal(inside_calls, 0);
}

static void no_signal_comes_but_of_faults(void **state)
{
	sigset_t was;

	(void)state;
	signal(SIGUSR1, on_signal);
	signal(SIGSEGV, on_signal);
	seen = 0;
	signals_hold(&was);
	raise(SIGUSR1);
	assert_int_equal(seen, 0);
	raise(SIGSEGV);
	assert_int_equal(seen, 1);
	seen = 0;
	signals_let(&was);
	assert_int_equal(seen, 1);
	signal(SIGSEGV, SIG_DFL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handler_knows_what_it_interrupts),
		cmocka_unit_test(no_signal_comes_but_of_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
