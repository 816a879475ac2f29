/* SPDX-License-Identifier: BSD-2-Clause */
/* The clock runs, a sleep ends by time or by a descriptor, and the service thread takes
 * no signal. */
#include "rsocket/os.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "sys/waiter_testing.h"

static void time_goes_on(void **state)
{
	uint64_t t = rsock_now();

	(void)state;
	assert_int_equal(rsock_sleep(NULL, 0, RSOCK_MS), 0);
	assert_true(rsock_now() - t >= RSOCK_MS);
	assert_int_equal(rsock_left(t), 0);
	assert_true(rsock_left(rsock_now() + RSOCK_S) > 0);
}

static void a_descriptor_ends_a_sleep(void **state)
{
	struct pollfd p = { .fd = eventfd(1, 0), .events = POLLIN };

	(void)state;
	assert_int_equal(rsock_sleep(&p, 1, RSOCK_FOREVER), 1);
	assert_int_equal(p.revents, POLLIN);
	close(p.fd);
}

static void handler(int n)
{
	(void)n;
}

static void *sleep_for_ever(void *arg)
{
	assert_int_equal(rsock_sleep(NULL, 0, RSOCK_FOREVER), -EINTR);
	return arg;
}

static void a_signal_ends_a_sleep(void **state)
{
	struct sigaction act = { .sa_handler = handler }, old;
	struct waiter sleeper;

	(void)state;
	sigaction(SIGUSR1, &act, &old);
	waiter_start(&sleeper, sleep_for_ever, NULL);
	assert_true(waiter_sleeps(&sleeper));
	assert_int_equal(pthread_kill(sleeper.thread, SIGUSR1), 0);
	waiter_join(&sleeper);
	sigaction(SIGUSR1, &old, NULL);
}

static sem_t done;
static sigset_t mask;

static void *run(void *arg)
{
	(void)arg;
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	sem_post(&done);
	return NULL;
}

static void the_thread_takes_no_signal(void **state)
{
	sigset_t own;

	(void)state;
	sem_init(&done, 0, 0);
	assert_int_equal(rsock_thread(run, NULL), 0);
	sem_wait(&done);
	assert_true(sigismember(&mask, SIGINT) && sigismember(&mask, SIGALRM));
	assert_false(sigismember(&mask, SIGSEGV) || sigismember(&mask, SIGBUS));
	pthread_sigmask(SIG_SETMASK, NULL, &own);
	assert_false(sigismember(&own, SIGINT));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_goes_on),
		cmocka_unit_test(a_descriptor_ends_a_sleep),
		cmocka_unit_test(a_signal_ends_a_sleep),
		cmocka_unit_test(the_thread_takes_no_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
