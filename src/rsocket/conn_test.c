/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages of a connection, and what poll() reports. */
#include "rsocket/conn.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "rsocket/fix.h"
#include "rsocket/rsocket.h"

enum { ALL = POLLIN | POLLOUT | POLLRDHUP };

static int ends[2];
static struct rsock_stream *a, *b;

static int begin(void **state)
{
	fix_begin(state);
	fix_pair(ends);
	a = fix_stream(ends[0]);
	b = fix_stream(ends[1]);
	rsock_conn_progress(a);
	rsock_conn_progress(b);
	return 0;
}

static int begin_iwarp(void **state)
{
	fix_begin(state);
	fix.iwarp = true;
	fix_pair(ends);
	a = fix_stream(ends[0]);
	b = fix_stream(ends[1]);
	return 0;
}

static int end(void **state)
{
	assert_int_equal(rsocket_close(ends[0]), 0);
	assert_int_equal(rsocket_close(ends[1]), 0);
	return fix_end(state);
}

/* Both halves of the receive buffers are published as soon as both ends are connected. */
static void at_the_beginning(void **state)
{
	(void)state;
	assert_int_equal(a->sock.state, RSOCK_UP);
	assert_int_equal(b->sock.state, RSOCK_UP);
	assert_false(a->passive);
	assert_true(b->passive);
	assert_int_equal(a->ep.s.free, 0);
	assert_int_equal(rsock_conn_events(&a->sock, ALL), POLLOUT | POLLWRNORM);
}

static void a_control_that_has_to_wait(void **state)
{
	struct rs_write w;

	(void)state;
	fix.hold = true;
	while (rs_may_control(&a->ep.s)) {
		rs_send_keepalive(&a->ep.s, &w);
		assert_int_equal(rsock_conn_post(a, &w, NULL), 0);
	}
	rsock_conn_control(a, RS_SHUTDOWN);
	assert_int_equal(a->controls_due, 1 << RS_SHUTDOWN);
	fix.hold = false;
	rsock_conn_progress(a);
	assert_int_equal(a->controls_due, 0);
	rsock_conn_progress(b);
	assert_true(b->read_end && !b->write_end);
}

static void say(struct rsock_stream *st, uint32_t imm)
{
	struct rs_write w = { .has_imm = true, .control = true, .imm = imm };

	st->ep.s.control_out++;
	assert_int_equal(rsock_conn_post(st, &w, NULL), 0);
}

static void a_peer_that_does_not_keep_to_the_protocol(void **state)
{
	(void)state;
	say(a, rs_imm(RS_DATA, RS_LOWER));
	say(a, rs_imm(RS_DATA, 10));
	rsock_conn_progress(b);
	assert_int_equal(b->sock.state, RSOCK_DOWN);
	assert_int_equal(b->sock.err, EPROTO);
	assert_int_equal(b->ep.s.unread, 0); /* data after a disconnect is ignored */
	assert_int_equal(fix_poll(ends[1], ALL),
			 POLLIN | POLLOUT | POLLRDHUP | POLLERR | POLLHUP);
}

static void what_follows_a_disconnect_is_nothing(void **state)
{
	(void)state;
	say(a, rs_imm(RS_CONTROL, RS_DISCONNECT));
	say(a, rs_imm(RS_DATA, RS_LOWER));
	rsock_conn_progress(b);
	assert_true(b->peer_disconnected && b->read_end && b->write_end);
	assert_int_equal(b->sock.state, RSOCK_UP);
	assert_int_equal(b->sock.err, 0);
	rsock_conn_fail(b, ECONNRESET);
	assert_int_equal(b->sock.err, 0); /* no data is missing */
}

/* poll() reports data before the end that came after it. */
static void poll_tells_data_before_the_end(void **state)
{
	char buf[10];

	(void)state;
	assert_int_equal(fix_send(ends[0], "data", 4, 0), 4);
	say(a, rs_imm(RS_CONTROL, RS_DISCONNECT));
	assert_int_equal(fix_poll(ends[1], ALL), POLLIN | POLLOUT | POLLRDHUP);
	assert_int_equal(fix_receive(ends[1], buf, 10, 0), 4);
	assert_int_equal(fix_poll(ends[1], ALL), ALL | POLLHUP);
}

/* All that is asked for is there, so the queue is not polled. */
static void a_poll_that_need_not_look(void **state)
{
	(void)state;
	assert_int_equal(fix_send(ends[0], "data", 4, 0), 4);
	assert_int_equal(rsock_conn_events(&b->sock, POLLOUT), POLLOUT | POLLWRNORM);
	assert_int_equal(b->ep.s.unread, 0);
	assert_int_equal(rsock_conn_events(&b->sock, POLLIN),
			 POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM);
}

static void a_post_that_fails(void **state)
{
	struct rs_write w;

	(void)state;
	fix.hold = true;
	rs_send_keepalive(&a->ep.s, &w);
	while (!rsock_conn_post(a, &w, NULL))
		;
	assert_int_equal(a->sock.state, RSOCK_DOWN);
	assert_int_equal(a->sock.err, ECONNRESET);
	rsock_conn_fail(a, EPROTO);
	assert_int_equal(a->sock.err, ECONNRESET); /* the first error is reported */
}

static void a_new_socket(void **state)
{
	int fd = rsocket_open(AF_INET, SOCK_STREAM, 0);

	(void)state;
	assert_int_equal(fix_poll(fd, ALL), POLLOUT | POLLHUP);
	rsock_conn_arm(fix_sock(fd), true);
	rsock_conn_take_events(fix_sock(fd));
	rsock_conn_progress(fix_stream(fd));
	assert_int_equal(rsocket_close(fd), 0);
}

/* On iWARP a disconnect is answered by closing, which the peer waits for. */
static void a_disconnect_on_iwarp_is_answered(void **state)
{
	(void)state;
	say(a, rs_imm(RS_CONTROL, RS_DISCONNECT));
	rsock_conn_progress(b);
	fix_service();
	assert_int_equal(a->sock.state, RSOCK_DOWN);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(at_the_beginning, begin, end),
		cmocka_unit_test_setup_teardown(a_control_that_has_to_wait, begin, end),
		cmocka_unit_test_setup_teardown(a_peer_that_does_not_keep_to_the_protocol,
						begin, end),
		cmocka_unit_test_setup_teardown(what_follows_a_disconnect_is_nothing,
						begin, end),
		cmocka_unit_test_setup_teardown(poll_tells_data_before_the_end, begin, end),
		cmocka_unit_test_setup_teardown(a_poll_that_need_not_look, begin, end),
		cmocka_unit_test_setup_teardown(a_post_that_fails, begin, end),
		cmocka_unit_test_setup_teardown(a_new_socket, begin, end),
		cmocka_unit_test_setup_teardown(a_disconnect_on_iwarp_is_answered,
						begin_iwarp, end),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
