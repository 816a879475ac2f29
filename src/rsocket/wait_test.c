/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting, in virtual time, on a socket whose kind only counts calls. */
#include "rsocket/wait.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rsocket/fix.h"

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
