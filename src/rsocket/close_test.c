/* SPDX-License-Identifier: BSD-2-Clause */
/* Shutdown and close while data has not arrived, in virtual time. */
#include "rsocket/close.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "rsocket/fix.h"
#include "rsocket/os.h"
#include "rsocket/rsocket.h"

static int ends[2];
static char buf[100];

static int begin(void **state)
{
	fix_begin(state);
	fix_pair(ends);
	return 0;
}

static int begin_iwarp(void **state)
{
	fix_begin(state);
	fix.iwarp = true;
	fix_pair(ends);
	return 0;
}

static void close_end(int i)
{
	assert_int_equal(rsocket_close(ends[i]), 0);
	ends[i] = -1;
}

static int end(void **state)
{
	for (int i = 0; i < 2; i++)
		if (ends[i] >= 0)
			close_end(i);
	return fix_end(state);
}

static void half_a_connection(void **state)
{
	(void)state;
	assert_int_equal(fix_send(ends[0], "last", 4, 0), 4);
	assert_int_equal(rsocket_shutdown(ends[0], SHUT_WR), 0);
	assert_int_equal(rsocket_shutdown(ends[0], SHUT_WR), 0);
	assert_int_equal(fix_send(ends[0], "x", 1, 0), -EPIPE);
	assert_int_equal(fix_receive(ends[1], buf, 100, 0), 4);
	assert_int_equal(fix_receive(ends[1], buf, 100, 0), 0);
	assert_int_equal(fix_send(ends[1], "answer", 6, 0), 6);
	assert_int_equal(fix_receive(ends[0], buf, 100, 0), 6);
	assert_int_equal(rsocket_shutdown(ends[1], SHUT_WR), 0);
	assert_int_equal(fix_receive(ends[0], buf, 100, 0), 0);
}

static void what_is_there_is_not_read_after_a_shutdown(void **state)
{
	(void)state;
	assert_int_equal(fix_send(ends[1], "data", 4, 0), 4);
	assert_int_equal(fix_poll(ends[0], POLLIN), POLLIN);
	assert_int_equal(rsocket_shutdown(ends[0], SHUT_RD), 0);
	assert_int_equal(fix_receive(ends[0], buf, 100, 0), 0);
	assert_int_equal(fix_send(ends[0], "x", 1, 0), 1);
	/* Both directions: RS_DISCONNECT. */
	assert_int_equal(rsocket_shutdown(ends[0], SHUT_WR), 0);
	assert_int_equal(fix_receive(ends[1], buf, 1, 0), 1);
	assert_int_equal(fix_receive(ends[1], buf, 1, 0), 0);
	assert_int_equal(fix_send(ends[1], "x", 1, 0), -EPIPE);
}

static void what_cannot_be_shut(void **state)
{
	int fd = rsocket_open(AF_INET, SOCK_STREAM, 0);

	(void)state;
	assert_int_equal(rsocket_shutdown(fd, SHUT_WR), -ENOTCONN);
	assert_int_equal(rsocket_shutdown(ends[0], 3), -EINVAL);
	assert_int_equal(rsocket_shutdown(ends[0], -1), -EINVAL);
	assert_int_equal(rsocket_close(fd), 0);
}

static void a_listener_that_is_shut(void **state)
{
	struct sockaddr_in a;
	int listener = fix_listen(&a, 1), fd;

	(void)state;
	fd = rsocket_open(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	rsocket_connect(fd, (struct sockaddr *)&a, sizeof(a));
	fix_service();
	assert_int_equal(rsocket_shutdown(listener, SHUT_RDWR), 0);
	assert_int_equal(rsocket_accept(listener, NULL, NULL), -EINVAL);
	fix_service();
	assert_int_equal(fix_receive(fd, buf, 1, 0), -ECONNRESET);
	assert_int_equal(rsocket_close(fd), 0);
	assert_int_equal(rsocket_close(listener), 0);
}

/* The program closes: nothing is lost, and it takes no time. */
static void what_was_sent_arrives(void **state)
{
	(void)state;
	assert_int_equal(fix_send(ends[0], "last", 4, 0), 4);
	fix.slept = 0;
	close_end(0);
	assert_int_equal(fix.slept, 0);
	assert_int_equal(fix_receive(ends[1], buf, 100, 0), 4);
	assert_int_equal(fix_receive(ends[1], buf, 100, 0), 0);
}

/* rclose waits for 20 ms, then the service thread for 10 s. */
static void what_has_not_arrived_is_waited_for(void **state)
{
	uint64_t begun;

	(void)state;
	assert_int_equal(fix_send(ends[0], "last", 4, 0), 4);
	fix.hold = true;
	begun = fix.now;
	close_end(0);
	assert_in_range(fix.now - begun, 20 * RSOCK_MS, 25 * RSOCK_MS);
	assert_int_equal(fix.qps, 2);
	assert_int_equal(rsock_sleep(NULL, 0, RSOCK_S), 0);
	assert_int_equal(fix.qps, 2); /* the service thread has not given up */
	fix.hold = false;
	assert_int_equal(rsock_sleep(NULL, 0, 20 * RSOCK_MS), 0);
	assert_int_equal(fix.qps, 1);
	assert_int_equal(fix_receive(ends[1], buf, 100, 0), 4);
}

static void nobody_takes_it(void **state)
{
	(void)state;
	assert_int_equal(fix_send(ends[0], "last", 4, 0), 4);
	fix.hold = true;
	close_end(0);
	assert_int_equal(rsock_sleep(NULL, 0, 9900 * RSOCK_MS), 0);
	assert_int_equal(fix.qps, 2);
	assert_int_equal(rsock_sleep(NULL, 0, 200 * RSOCK_MS), 0);
	assert_int_equal(fix.qps, 1);
}

static void linger(int fd, int on, int seconds)
{
	struct linger l = { .l_onoff = on, .l_linger = seconds };

	assert_int_equal(rsocket_set_option(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
}

static void lingering(void **state)
{
	uint64_t begun = fix.now;

	(void)state;
	linger(ends[0], 1, 3);
	linger(ends[1], 1, 0);
	fix_send(ends[0], "last", 4, 0);
	fix.hold = true;
	close_end(0);
	assert_in_range(fix.now - begun, 3 * RSOCK_S, 3 * RSOCK_S + 10 * RSOCK_MS);
	begun = fix.now;
	close_end(1);
	assert_true(fix.now - begun < RSOCK_MS);
	assert_int_equal(fix.qps, 0);
}

/* An invalid number of seconds counts as a long time, without overflow. */
static void a_hostile_linger(void **state)
{
	(void)state;
	linger(ends[0], 1, -1);
	linger(ends[1], 1, INT32_MAX);
	close_end(0);
	close_end(1);
}

/* TCP may lose data on its way, so the peer has to disconnect, too. */
static void on_iwarp_the_peer_has_to_close(void **state)
{
	(void)state;
	assert_int_equal(fix_send(ends[0], "last", 4, 0), 4);
	fix.hold = true;
	close_end(0);
	fix_deliver();
	assert_int_equal(rsock_sleep(NULL, 0, 100 * RSOCK_MS), 0);
	assert_int_equal(fix.qps, 2); /* every send has completed */
	fix.hold = false;
	assert_int_equal(fix_receive(ends[1], buf, 100, 0), 4);
	assert_int_equal(fix_receive(ends[1], buf, 100, 0), 0);
	assert_int_equal(rsock_sleep(NULL, 0, 20 * RSOCK_MS), 0);
	assert_int_equal(fix.qps, 1);
}

static void left_open_at_exit(void **state)
{
	struct rsock *rs = fix_sock(ends[0]);

	(void)state;
	fix.hold = true;
	assert_int_equal(fix_send(ends[0], "last", 4, 0), 4);
	assert_true(rs->kind->at_exit(rs));
	fix.hold = false;
	assert_false(rs->kind->at_exit(rs));
	assert_int_equal(fix_receive(ends[1], buf, 100, 0), 4);
	assert_int_equal(fix_receive(ends[1], buf, 100, 0), 0);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(half_a_connection, begin, end),
		cmocka_unit_test_setup_teardown(what_is_there_is_not_read_after_a_shutdown,
						begin, end),
		cmocka_unit_test_setup_teardown(what_cannot_be_shut, begin, end),
		cmocka_unit_test_setup_teardown(a_listener_that_is_shut, begin, end),
		cmocka_unit_test_setup_teardown(what_was_sent_arrives, begin, end),
		cmocka_unit_test_setup_teardown(what_has_not_arrived_is_waited_for, begin,
						end),
		cmocka_unit_test_setup_teardown(nobody_takes_it, begin, end),
		cmocka_unit_test_setup_teardown(lingering, begin, end),
		cmocka_unit_test_setup_teardown(a_hostile_linger, begin, end),
		cmocka_unit_test_setup_teardown(on_iwarp_the_peer_has_to_close, begin_iwarp,
						end),
		cmocka_unit_test_setup_teardown(left_open_at_exit, begin, end),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
