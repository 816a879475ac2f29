/* SPDX-License-Identifier: BSD-2-Clause */
/* Connecting, with success and without; shutdown and close. */
#include "rsocket/streamconn.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "rsocket/fix.h"
#include "rsocket/os.h"
#include "rsocket/rsocket.h"

/* --- connecting ---------------------------------------------------------- */

static struct sockaddr_in to;
static struct sockaddr *const name = (struct sockaddr *)&to;
static int client;

static int begin(void **state)
{
	fix_begin(state);
	client = rsocket_open(AF_INET, SOCK_STREAM, 0);
	to = fix_addr(1, 7); /* no program listens there */
	return client < 0;
}

static int end(void **state)
{
	assert_int_equal(rsocket_close(client), 0);
	return fix_end(state);
}

static int error_of(void)
{
	int v = -1;
	socklen_t len = sizeof(v);

	assert_int_equal(rsocket_get_option(client, SOL_SOCKET, SO_ERROR, &v, &len), 0);
	return v;
}

static int try(void)
{
	return rsocket_connect(client, name, sizeof(to));
}

static void nobody_listens(void **state)
{
	(void)state;
	assert_int_equal(try(), -ECONNREFUSED);
	assert_int_equal(error_of(), 0);	/* the program has been told */
	assert_int_equal(try(), -ECONNREFUSED); /* starts another attempt */
}

static void it_is_told_once(void **state)
{
	int listener;

	(void)state;
	fix_nonblock(client, true);
	assert_int_equal(try(), -EINPROGRESS);
	assert_int_equal(try(), -EALREADY);
	assert_int_equal(fix_poll(client, POLLOUT), 0);
	fix_service();
	assert_int_equal(fix_poll(client, POLLOUT), POLLOUT | POLLERR | POLLHUP);
	assert_int_equal(error_of(), ECONNREFUSED);
	assert_int_equal(try(), -EINPROGRESS);
	fix_service();
	assert_int_equal(try(), -ECONNREFUSED); /* this time connect reports it */
	listener = fix_listen(&to, 1);
	assert_int_equal(try(), -EINPROGRESS);
	fix_service();
	assert_int_equal(fix_poll(client, POLLOUT), POLLOUT);
	assert_int_equal(error_of(), 0);
	assert_int_equal(try(), -EISCONN);
	assert_int_equal(rsocket_close(listener), 0);
}

static enum rdma_cm_event_type told;
static int told_status;

static void tell(void)
{
	fix_tell_all(told, told_status);
}

static void errors_of_rdma_cm(void **state)
{
	static const struct {
		enum rdma_cm_event_type type;
		int status, rc;
	} rows[] = {
		{ RDMA_CM_EVENT_REJECTED, 8, -ECONNREFUSED },
		{ RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, -ETIMEDOUT },
		{ RDMA_CM_EVENT_UNREACHABLE, -ENETUNREACH, -ENETUNREACH },
		{ RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO, -EPROTO },
		{ RDMA_CM_EVENT_CONNECT_ERROR, 3, -ECONNRESET },
		{ RDMA_CM_EVENT_ESTABLISHED, 0, -ECONNREFUSED }, /* no private data */
	};

	(void)state;
	fix.deaf = true;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		told = rows[i].type;
		told_status = rows[i].status;
		fix_when_asleep(tell);
		assert_int_equal(try(), rows[i].rc);
	}
}

/* A failed attempt does not change the address that was bound. */
static void a_bound_socket_stays_bound(void **state)
{
	struct sockaddr_in own = fix_addr(1, 0);
	socklen_t len = sizeof(own);
	in_port_t port;

	(void)state;
	assert_int_equal(rsocket_bind(client, (struct sockaddr *)&own, sizeof(own)), 0);
	assert_int_equal(rsocket_name(client, false, (struct sockaddr *)&own, &len), 0);
	port = own.sin_port;
	assert_int_equal(try(), -ECONNREFUSED);
	assert_int_equal(try(), -ECONNREFUSED);
	assert_int_equal(rsocket_name(client, false, (struct sockaddr *)&own, &len), 0);
	assert_int_equal(own.sin_port, port);
}

/* An event of an id that the socket gave up after the event was read. */
static void an_event_of_an_id_that_was_given_up(void **state)
{
	struct rdma_cm_id old = { .context = fix_sock(client) };
	struct rdma_cm_event ev = { .id = &old, .event = RDMA_CM_EVENT_REJECTED };
	struct rsock *rs = fix_sock(client);

	(void)state;
	fix.deaf = true;
	fix_nonblock(client, true);
	assert_int_equal(try(), -EINPROGRESS);
	assert_int_equal(rsock_connect_event(rs, &ev), RSOCK_AFTER_NOTHING);
	assert_int_equal(rs->state, RSOCK_CONNECTING);
	ev.id = rsock_stream_of(rs)->id;
	assert_int_equal(rsock_connect_event(rs, &ev), RSOCK_AFTER_NOTHING);
	assert_int_equal(rs->state, RSOCK_DOWN);
}

static void what_cannot_be_made(void **state)
{
	int listener = fix_listen(&to, 8), rc = -1;

	(void)state;
	for (unsigned n = 1; rc && n < 30; n++) {
		fix_fail(n);
		rc = try();
		assert_true(rc == 0 || rc == -ENOMEM || rc == -ECONNREFUSED);
		assert_true(rc == 0 || fix_sock(client)->state == RSOCK_NEW ||
			    fix_sock(client)->state == RSOCK_DOWN);
	}
	assert_int_equal(rc, 0);
	fix.fail = 0;
	assert_int_equal(rsocket_close(listener), 0);
}

static void addresses_that_do_not_fit(void **state)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };

	(void)state;
	assert_int_equal(rsocket_connect(client, (struct sockaddr *)&six, sizeof(six)),
			 -EAFNOSUPPORT);
	assert_int_equal(rsocket_connect(client, name, 4), -EINVAL);
	assert_int_equal(rsocket_connect(client, NULL, sizeof(to)), -EFAULT);
	assert_int_equal(rsocket_connect(client, name, 1), -EINVAL);
}

/* --- the end ------------------------------------------------------------- */

static int ends[2];
static char buf[100];

static int begin_pair(void **state)
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

static int end_pair(void **state)
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
		cmocka_unit_test_setup_teardown(nobody_listens, begin, end),
		cmocka_unit_test_setup_teardown(it_is_told_once, begin, end),
		cmocka_unit_test_setup_teardown(errors_of_rdma_cm, begin, end),
		cmocka_unit_test_setup_teardown(a_bound_socket_stays_bound, begin, end),
		cmocka_unit_test_setup_teardown(an_event_of_an_id_that_was_given_up, begin,
						end),
		cmocka_unit_test_setup_teardown(what_cannot_be_made, begin, end),
		cmocka_unit_test_setup_teardown(addresses_that_do_not_fit, begin, end),
		cmocka_unit_test_setup_teardown(half_a_connection, begin_pair, end_pair),
		cmocka_unit_test_setup_teardown(what_is_there_is_not_read_after_a_shutdown,
						begin_pair, end_pair),
		cmocka_unit_test_setup_teardown(what_cannot_be_shut, begin_pair, end_pair),
		cmocka_unit_test_setup_teardown(a_listener_that_is_shut, begin_pair, end_pair),
		cmocka_unit_test_setup_teardown(what_was_sent_arrives, begin_pair, end_pair),
		cmocka_unit_test_setup_teardown(what_has_not_arrived_is_waited_for, begin_pair,
						end_pair),
		cmocka_unit_test_setup_teardown(nobody_takes_it, begin_pair, end_pair),
		cmocka_unit_test_setup_teardown(lingering, begin_pair, end_pair),
		cmocka_unit_test_setup_teardown(a_hostile_linger, begin_pair, end_pair),
		cmocka_unit_test_setup_teardown(on_iwarp_the_peer_has_to_close, begin_iwarp,
						end_pair),
		cmocka_unit_test_setup_teardown(left_open_at_exit, begin_pair, end_pair),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
