/* SPDX-License-Identifier: BSD-2-Clause */
/* Sleepers and their queues; waiting, in virtual time, on a socket whose kind only counts
 * calls. */
#include "rsocket/wait.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "rsocket/fix.h"

/* --- wait queues and sleepers -------------------------------------------- */

enum { THREADS = 4 };

static bool awake(const struct rsock_sleeper *sl)
{
	struct pollfd p = { .fd = sl->efd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void a_thread_in_two_queues(void **state)
{
	struct rsock_sleeper *sl;
	struct rsock_waitq a, b, c;

	(void)state;
	rsock_waitq_init(&a);
	rsock_waitq_init(&b);
	rsock_waitq_init(&c);
	assert_int_equal(rsock_sleeper(2, &sl), 0);
	rsock_sleeper_link(sl, &a);
	rsock_sleeper_link(sl, &b);
	rsock_waitq_wake(&c);
	assert_false(awake(sl));
	rsock_waitq_wake(&b);
	assert_true(awake(sl));
	assert_int_equal(rsock_sleeper(2, &sl), 0); /* the thread's next call */
	assert_false(awake(sl));
	assert_int_equal(a.n + b.n, 0);
	rsock_waitq_wake(&a);
	assert_false(awake(sl));
}

/* A call that was left by longjmp() has left a link behind. */
static void what_was_left_is_unlinked(void **state)
{
	struct rsock_waitq *waitq = malloc(sizeof(*waitq)), other;
	struct rsock_sleeper *sl;

	(void)state;
	rsock_waitq_init(waitq);
	rsock_waitq_init(&other);
	assert_int_equal(rsock_sleeper(1, &sl), 0);
	rsock_sleeper_link(sl, waitq);
	assert_int_equal(rsock_sleeper(100, &sl), 0);
	assert_int_equal(waitq->n, 0);
	free(waitq);
	rsock_sleeper_link(sl, &other);
	rsock_sleeper_unlink(sl);
	rsock_sleeper_unlink(sl);
	assert_int_equal(other.n, 0);
}

static struct rsock_waitq common;
static sem_t linked;

static void *sleep_there(void *arg)
{
	struct rsock_sleeper *sl;
	struct pollfd p;

	(void)arg;
	if (rsock_sleeper(1, &sl))
		return NULL;
	rsock_sleeper_link(sl, &common);
	sem_post(&linked);
	p = (struct pollfd){ .fd = sl->efd, .events = POLLIN };
	return poll(&p, 1, -1) == 1 ? &common : NULL;
	/* and ends without unlinking */
}

static void all_are_woken_and_a_thread_that_ends_is_gone(void **state)
{
	pthread_t t[THREADS];
	void *woken;

	(void)state;
	rsock_waitq_init(&common);
	sem_init(&linked, 0, 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, sleep_there, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		sem_wait(&linked);
	rsock_waitq_wake(&common);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], &woken);
		assert_ptr_equal(woken, &common);
	}
	assert_int_equal(common.n, 0);
	assert_true(list_empty(&common.links));
}

static int in_child(int parents)
{
	struct rsock_sleeper *sl;

	rsock_sleepers_forked();
	if (rsock_sleeper(1, &sl) || sl->n)
		return 1;
	rsock_eventfd_set(sl->efd);
	return parents < 0 || !awake(sl);
}

/* The child gets a sleeper of its own, and waking it does not wake the parent. */
static void a_fork_in_the_middle(void **state)
{
	struct rsock_sleeper *sl;
	struct rsock_waitq waitq;
	int status;
	pid_t pid;

	(void)state;
	rsock_waitq_init(&waitq);
	assert_int_equal(rsock_sleeper(1, &sl), 0);
	rsock_sleeper_link(sl, &waitq);
	rsock_sleepers_lock();
	pid = fork();
	rsock_sleepers_unlock();
	if (!pid)
		_exit(in_child(sl->efd));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_false(awake(sl));
	rsock_waitq_wake(&waitq);
	assert_true(awake(sl));
	rsock_sleeper_unlink(sl);
}

/* --- waiting ------------------------------------------------------------- */

static struct rsock *rs;
static int progressed, armed, took, ready_after;
static bool is_ready, spins;

static void progress(struct rsock *s)
{
	(void)s;
	progressed++;
	if (ready_after && progressed == ready_after)
		is_ready = true;
}

static bool may_spin(const struct rsock *s)
{
	(void)s;
	return spins;
}

static void arm(struct rsock *s, bool for_space)
{
	(void)s;
	armed += for_space ? 100 : 1;
}

static void take_events(struct rsock *s)
{
	(void)s;
	took++;
}

static bool ready(struct rsock *s)
{
	(void)s;
	return is_ready;
}

static struct rsock_kind kind = {
	.progress = progress,
	.may_spin = may_spin,
	.arm = arm,
	.take_events = take_events,
	.free = rsock_fini,
};

static int begin(void **state)
{
	fix_begin(state);
	progressed = armed = took = ready_after = 0;
	is_ready = false;
	spins = kind.eager = false;
	rsock_slept(0);
	rs = malloc(sizeof(*rs));
	rsock_init(rs, &kind, AF_INET, SOCK_STREAM);
	pthread_mutex_lock(&rs->lock);
	return 0;
}

static int end(void **state)
{
	pthread_mutex_unlock(&rs->lock);
	rsock_put(rs);
	return fix_end(state);
}

static void what_is_ready_is_not_waited_for(void **state)
{
	(void)state;
	is_ready = true;
	assert_int_equal(rsock_wait(rs, ready, false, false, RSOCK_FOREVER), 0);
	assert_int_equal(progressed, 0);
	kind.eager = true;
	assert_int_equal(rsock_wait(rs, ready, false, false, RSOCK_FOREVER), 0);
	assert_int_equal(progressed, 1);
}

static void a_nonblocking_call_looks_once(void **state)
{
	(void)state;
	assert_int_equal(rsock_wait(rs, ready, true, false, RSOCK_FOREVER), -EAGAIN);
	assert_int_equal(progressed, 1);
	assert_int_equal(armed, 0);
	assert_int_equal(fix.slept, 0);
}

static void a_limit(void **state)
{
	uint64_t begun = fix.now;

	(void)state;
	assert_int_equal(rsock_wait(rs, ready, false, true, 20 * RSOCK_MS), -ETIMEDOUT);
	assert_in_range(fix.now - begun, 20 * RSOCK_MS, 21 * RSOCK_MS);
	assert_int_equal(armed, 100); /* space was asked for */
	assert_int_equal(took, 1);
	assert_int_equal(rsock_wait(rs, ready, false, true, 0), -ETIMEDOUT);
}

/* A thread polls for polling_time, or for 200 us if its last wait was short. */
static void looking_before_sleeping(void **state)
{
	uint64_t begun = fix.now;

	(void)state;
	spins = true;
	ready_after = 100;
	assert_int_equal(rsock_wait(rs, ready, false, false, RSOCK_FOREVER), 0);
	assert_int_equal(fix.slept, 0);
	assert_true(fix.now - begun < 200000);
	rsock_slept(RSOCK_S);
	assert_int_equal(rsock_spin_ns(), 1000u * rsock_defaults()->polling_us);
	rsock_slept(100);
	assert_int_equal(rsock_spin_ns(), 200000);
	is_ready = false;
	ready_after = 0;
	assert_int_equal(rsock_wait(rs, ready, false, false, RSOCK_MS), -ETIMEDOUT);
	assert_int_equal(fix.slept, 1);
}

static void make_ready(void)
{
	is_ready = true;
	rsock_wake(rs);
}

static void another_thread_wakes_it(void **state)
{
	(void)state;
	fix_when_asleep(make_ready);
	assert_int_equal(rsock_wait(rs, ready, false, false, RSOCK_FOREVER), 0);
	assert_int_equal(fix.slept, 1);
	assert_int_equal(rs->waitq.n, 0);
}

/* What comes between the last look and arm() is found before the thread sleeps. */
static void what_comes_in_between(void **state)
{
	(void)state;
	ready_after = 2;
	assert_int_equal(rsock_wait(rs, ready, false, false, RSOCK_FOREVER), 0);
	assert_int_equal(fix.slept, 0);
	assert_int_equal(armed, 1);
}

static void close_it(void)
{
	rs->closed = true;
	rsock_wake(rs);
}

static void a_socket_that_is_closed(void **state)
{
	(void)state;
	fix_when_asleep(close_it);
	assert_int_equal(rsock_wait(rs, ready, false, false, RSOCK_FOREVER), -EBADF);
	is_ready = true;
	assert_int_equal(rsock_wait(rs, ready, false, false, RSOCK_FOREVER), -EBADF);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_in_two_queues),
		cmocka_unit_test(what_was_left_is_unlinked),
		cmocka_unit_test(all_are_woken_and_a_thread_that_ends_is_gone),
		cmocka_unit_test(a_fork_in_the_middle),
		cmocka_unit_test_setup_teardown(what_is_ready_is_not_waited_for, begin, end),
		cmocka_unit_test_setup_teardown(a_nonblocking_call_looks_once, begin, end),
		cmocka_unit_test_setup_teardown(a_limit, begin, end),
		cmocka_unit_test_setup_teardown(looking_before_sleeping, begin, end),
		cmocka_unit_test_setup_teardown(another_thread_wakes_it, begin, end),
		cmocka_unit_test_setup_teardown(what_comes_in_between, begin, end),
		cmocka_unit_test_setup_teardown(a_socket_that_is_closed, begin, end),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
