/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>

#include "sys/cancel.h"
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

/* The kernel ends a process that blocks a signal of a fault when it has one. */
static void no_signal_comes_but_of_faults(void **state)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS };
	sigset_t was;

	(void)state;
	signal(SIGUSR1, on_signal);
	seen = 0;
	signals_hold(&was);
	raise(SIGUSR1);
	assert_int_equal(seen, 0);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		void (*before)(int sig) = signal(faults[i], on_signal);

		seen = 0;
		raise(faults[i]);
		assert_int_equal(seen, 1);
		signal(faults[i], before);
	}
	seen = 0;
	signals_let(&was);
	assert_int_equal(seen, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handler_knows_what_it_interrupts),
		cmocka_unit_test(no_signal_comes_but_of_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
