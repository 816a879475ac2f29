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

/* The signal is sent again and again, as the first may come before the sleep. */
static void a_signal_ends_a_sleep(void **state)
{
	const struct itimerspec soon = { .it_value.tv_nsec = 1000000,
					 .it_interval.tv_nsec = 1000000 };
	struct sigaction act = { .sa_handler = handler }, old;
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	timer_t timer;

	(void)state;
	sigaction(SIGALRM, &act, &old);
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &ev, &timer), 0);
	assert_int_equal(timer_settime(timer, 0, &soon, NULL), 0);
	assert_int_equal(rsock_sleep(NULL, 0, RSOCK_FOREVER), -EINTR);
	timer_delete(timer);
	sigaction(SIGALRM, &old, NULL);
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
