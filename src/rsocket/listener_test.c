/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids and addresses; requests, backlogs and accepting. */
#include "rsocket/listener.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "rsocket/fix.h"
#include "rsocket/rsocket.h"
#include "rsocket/service_thread.h"
#include "rsocket/streamconn.h"

/* --- ids and addresses --------------------------------------------------- */

static struct sockaddr_in a;
static struct sockaddr *const name = (struct sockaddr *)&a;

static int try_bind(int fd, uint16_t port)
{
	a = fix_addr(1, port);
	return rsocket_bind(fd, name, sizeof(a));
}

static uint16_t port_of(int fd)
{
	socklen_t len = sizeof(a);

	assert_int_equal(rsocket_name(fd, false, name, &len), 0);
	assert_int_equal(len, sizeof(a));
	assert_int_equal(a.sin_family, AF_INET);
	return ntohs(a.sin_port);
}

static void it_gets_a_port(void **state)
{
	int fd = rsocket_open(AF_INET, SOCK_STREAM, 0);

	(void)state;
	assert_int_equal(port_of(fd), 0);
	assert_int_equal(try_bind(fd, 0), 0);
	assert_int_not_equal(port_of(fd), 0);
	assert_int_equal(try_bind(fd, 0), -EINVAL); /* it is bound already */
	assert_int_equal(rsocket_close(fd), 0);
}

static void a_port_that_is_taken(void **state)
{
	int listener = fix_listen(&a, 1), fd = rsocket_open(AF_INET, SOCK_STREAM, 0);
	uint16_t port = ntohs(a.sin_port);

	(void)state;
	assert_int_equal(try_bind(fd, port), -EADDRINUSE);
	assert_int_equal(fix_sock(fd)->state, RSOCK_NEW);
	assert_int_equal(try_bind(fd, 0), 0); /* another attempt succeeds */
	assert_int_equal(rsocket_close(fd), 0);
	assert_int_equal(rsocket_close(listener), 0);
}

static void names_of_a_connection(void **state)
{
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);
	int ends[2];

	(void)state;
	fix_pair(ends);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rsocket_name(ends[i], true, (struct sockaddr *)&peer,
					      &len),
				 0);
		assert_int_equal(ntohs(peer.sin_port), port_of(ends[!i]));
	}
	assert_int_equal(rsocket_close(ends[0]), 0);
	/* The peer's name is known as long as the socket exists. */
	assert_int_equal(rsocket_name(ends[1], true, (struct sockaddr *)&peer, &len), 0);
	assert_int_equal(rsocket_close(ends[1]), 0);
}

static void without_a_connection_there_is_no_peer(void **state)
{
	int fd = rsocket_open(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(a);

	(void)state;
	assert_int_equal(rsocket_name(fd, true, name, &len), -ENOTCONN);
	assert_int_equal(rsocket_close(fd), 0);
}

static void what_cannot_be_made(void **state)
{
	int fd = rsocket_open(AF_INET, SOCK_STREAM, 0);

	(void)state;
	for (unsigned n = 1; n <= 2; n++) { /* 1: the id fails, 2: its address */
		fix_fail(n);
		assert_int_equal(try_bind(fd, 0), -ENOMEM);
		assert_int_equal(fix_sock(fd)->state, RSOCK_NEW);
	}
	assert_int_equal(try_bind(fd, 0), 0);
	assert_int_equal(fix.ids, 1);
	assert_int_equal(rsocket_close(fd), 0);
}

/* The first bind starts the service thread. */
static int start(void **state)
{
	int fd;

	fix_begin(state);
	fd = rsocket_open(AF_INET, SOCK_STREAM, 0);
	return try_bind(fd, 0) || rsocket_close(fd) || fix_end(state);
}

/* --- listening ----------------------------------------------------------- */

static struct sockaddr_in at;
static struct sockaddr *const listener_name = (struct sockaddr *)&at;
static int listener;

static int begin(void **state)
{
	fix_begin(state);
	listener = fix_listen(&at, 2);
	assert_int_equal(fix_nonblock(listener, true), 0);
	return 0;
}

static int end(void **state)
{
	if (listener >= 0)
		assert_int_equal(rsocket_close(listener), 0);
	return fix_end(state);
}

/* Connects a non-blocking socket, which gives EINPROGRESS. */
static int ask(void)
{
	int fd = rsocket_open(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	assert_int_equal(rsocket_connect(fd, listener_name, sizeof(at)), -EINPROGRESS);
	return fd;
}

static void close_all(const int *fds, int n)
{
	for (int i = 0; i < n; i++)
		assert_int_equal(rsocket_close(fds[i]), 0);
}

static void a_connect_need_not_wait_for_accept(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(rsocket_accept(listener, NULL, NULL), -EAGAIN);
	assert_int_equal(fix_poll(listener, POLLIN), 0);
	fds[0] = ask();
	fix_service();
	assert_int_equal(fix_sock(fds[0])->state, RSOCK_UP);
	assert_int_equal(fix_poll(listener, POLLIN), POLLIN);
	fds[1] = rsocket_accept(listener, NULL, NULL);
	assert_true(fds[1] >= 0);
	assert_int_equal(fix_sock(fds[1])->state, RSOCK_UP);
	close_all(fds, 2);
}

static void the_backlog_bounds_them(void **state)
{
	int fds[8], up = 0;

	(void)state;
	for (int i = 0; i < 4; i++)
		fds[i] = ask();
	fix_service();
	for (int i = 0; i < 4; i++)
		up += fix_sock(fds[i])->state == RSOCK_UP;
	assert_int_equal(up, 2);
	assert_int_equal(fix.qps, 4 + 2); /* waiting requests have no QP */
	for (int i = 4; i < 8; i++) {
		fds[i] = rsocket_accept(listener, NULL, NULL);
		assert_true(fds[i] >= 0);
		fix_service();
	}
	assert_int_equal(rsocket_accept(listener, NULL, NULL), -EAGAIN);
	close_all(fds, 8);
}

static void a_larger_backlog_takes_more(void **state)
{
	int fds[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		fds[i] = ask();
	fix_service();
	assert_int_equal(fix_sock(fds[3])->state, RSOCK_CONNECTING);
	assert_int_equal(rsocket_listen(listener, 4), 0);
	fix_service();
	assert_int_equal(fix_sock(fds[3])->state, RSOCK_UP);
	close_all(fds, 4);
}

static int late;

static void connect_late(void)
{
	late = ask();
}

static void a_blocking_accept(void **state)
{
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);
	int fd;

	(void)state;
	assert_int_equal(fix_nonblock(listener, false), 0);
	fix_when_asleep(connect_late);
	fd = rsocket_accept(listener, (struct sockaddr *)&peer, &len);
	assert_true(fd >= 0);
	assert_int_equal(peer.sin_addr.s_addr, at.sin_addr.s_addr);
	close_all((int[]){ fd, late }, 2);
}

/* A connection begins with the options of its listener. */
static void options_are_inherited(void **state)
{
	int v = 5000, fds[2];
	socklen_t len = sizeof(v);

	(void)state;
	assert_int_equal(rsocket_set_option(listener, SOL_SOCKET, SO_RCVBUF, &v, len), 0);
	fds[0] = ask();
	fix_service();
	fds[1] = rsocket_accept(listener, NULL, NULL);
	assert_int_equal(fix_sock(fds[1])->opt.sizes.rcvbuf, 5000);
	assert_int_equal(fix_stream(fds[1])->ep.rbuf.size, 10000);
	close_all(fds, 2);
}

static void private_data_of_a_stranger(void **state)
{
	struct rdma_cm_id *id;
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_conn_param p = { .private_data = "GET / HTTP/1.0\r\n",
				     .private_data_len = 16 };
	struct rdma_cm_event *ev;

	(void)state;
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, listener_name, 1), 0);
	assert_int_equal(rdma_connect(id, &p), 0);
	fix_service();
	assert_int_equal(rdma_get_cm_event(ch, &ev), 0);
	assert_int_equal(ev->event, RDMA_CM_EVENT_REJECTED);
	rdma_ack_cm_event(ev);
	assert_int_equal(rsocket_accept(listener, NULL, NULL), -EAGAIN);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(ch);
}

/* A connection that cannot be made makes room for the next request. */
static void what_cannot_be_accepted(void **state)
{
	int fds[3];

	(void)state;
	assert_int_equal(rsocket_listen(listener, 1), 0);
	fds[0] = ask();
	fds[1] = ask();
	fix_fail(1);
	fix_service();
	assert_int_equal(fix_sock(fds[0])->state, RSOCK_DOWN);
	assert_int_equal(fix_sock(fds[0])->err, ECONNREFUSED);
	assert_int_equal(fix_sock(fds[1])->state, RSOCK_UP);
	fds[2] = rsocket_accept(listener, NULL, NULL);
	assert_true(fds[2] >= 0);
	close_all(fds, 3);
}

/* A connection that was accepted, but fails before it is established. */
static void one_that_fails_makes_room(void **state)
{
	struct rdma_cm_event ev = { .event = RDMA_CM_EVENT_CONNECT_ERROR };
	struct rsock_stream *child;
	int fds[2];

	(void)state;
	assert_int_equal(rsocket_listen(listener, 1), 0);
	fds[0] = ask();
	fds[1] = ask();
	assert_int_equal(rsock_service_turn(0), 0); /* both requests */
	assert_int_equal(rsock_service_turn(0), 0);
	child = rsock_stream_of(
		rsock_of(container_of(fix_stream(listener)->backlog.accepting.next,
				      struct rsock_child, node)
				 ->owner));
	ev.id = child->id;
	assert_int_equal(fix.qps, 3);
	assert_int_equal(rsock_connect_event(&child->sock, &ev), RSOCK_AFTER_PUT);
	rsock_put(&child->sock);
	fix_service();
	assert_int_equal(fix_sock(fds[1])->state, RSOCK_UP);
	close_all(fds, 2);
}

static void a_client_that_gives_up_waiting(void **state)
{
	int fds[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		fds[i] = ask();
	fix_service();
	close_all(fds, 3); /* two are ready, one waits */
	fix_service();
	fds[0] = rsocket_accept(listener, NULL, NULL);
	fds[1] = rsocket_accept(listener, NULL, NULL);
	assert_true(fds[0] >= 0 && fds[1] >= 0);
	assert_int_equal(fix_receive(fds[0], &at, 1, 0), 0);
	fix_service();
	assert_int_equal(rsocket_accept(listener, NULL, NULL), -EAGAIN);
	close_all(fds, 2);
}

static void without_a_descriptor_it_stays_the_next(void **state)
{
	struct rlimit was, none;
	int fds[2];

	(void)state;
	fds[0] = ask();
	fix_service();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = was;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &none);
	fds[1] = rsocket_accept(listener, NULL, NULL);
	setrlimit(RLIMIT_NOFILE, &was);
	assert_int_equal(fds[1], -EMFILE);
	fds[1] = rsocket_accept(listener, NULL, NULL);
	assert_true(fds[1] >= 0);
	close_all(fds, 2);
}

static void a_listener_that_is_closed(void **state)
{
	int fds[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		fds[i] = ask();
	fix_service();
	assert_int_equal(rsocket_close(listener), 0);
	listener = -1;
	fix_service();
	for (int i = 0; i < 3; i++)
		assert_int_equal(fix_sock(fds[i])->state, RSOCK_DOWN);
	close_all(fds, 3);
}

static void only_a_listener_accepts(void **state)
{
	int fd = rsocket_open(AF_INET, SOCK_STREAM, 0), dg;

	(void)state;
	assert_int_equal(rsocket_accept(fd, NULL, NULL), -EINVAL);
	dg = rsocket_open(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(rsocket_accept(dg, NULL, NULL), -EOPNOTSUPP);
	assert_int_equal(rsocket_listen(dg, 1), -EOPNOTSUPP);
	assert_int_equal(rsocket_listen(fd, 1), 0); /* it gets a port */
	assert_int_equal(rsocket_connect(fd, listener_name, sizeof(at)), -EOPNOTSUPP);
	close_all((int[]){ fd, dg }, 2);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_connect_need_not_wait_for_accept, begin,
						end),
		cmocka_unit_test_setup_teardown(the_backlog_bounds_them, begin, end),
		cmocka_unit_test_setup_teardown(a_larger_backlog_takes_more, begin, end),
		cmocka_unit_test_setup_teardown(a_blocking_accept, begin, end),
		cmocka_unit_test_setup_teardown(options_are_inherited, begin, end),
		cmocka_unit_test_setup_teardown(private_data_of_a_stranger, begin, end),
		cmocka_unit_test_setup_teardown(what_cannot_be_accepted, begin, end),
		cmocka_unit_test_setup_teardown(one_that_fails_makes_room, begin, end),
		cmocka_unit_test_setup_teardown(a_client_that_gives_up_waiting, begin, end),
		cmocka_unit_test_setup_teardown(without_a_descriptor_it_stays_the_next, begin,
						end),
		cmocka_unit_test_setup_teardown(a_listener_that_is_closed, begin, end),
		cmocka_unit_test_setup_teardown(only_a_listener_accepts, begin, end),
	};
	const struct CMUnitTest of_ids[] = {
		cmocka_unit_test_setup_teardown(it_gets_a_port, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(a_port_that_is_taken, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(names_of_a_connection, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(without_a_connection_there_is_no_peer,
						fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(what_cannot_be_made, fix_begin, fix_end),
	};
	/* clang-format on */
	int failed = cmocka_run_group_tests(of_ids, start, NULL);

	return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
