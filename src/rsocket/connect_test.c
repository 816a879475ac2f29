/* SPDX-License-Identifier: BSD-2-Clause */
/* Connecting, with success and without. */
#include "rsocket/connect.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "rsocket/fix.h"
#include "rsocket/rsocket.h"

static struct sockaddr_in a;
static struct sockaddr *const name = (struct sockaddr *)&a;
static int fd;

static int begin(void **state)
{
	fix_begin(state);
	fd = rsocket_open(AF_INET, SOCK_STREAM, 0);
	a = fix_addr(1, 7); /* no program listens there */
	return fd < 0;
}

static int end(void **state)
{
	assert_int_equal(rsocket_close(fd), 0);
	return fix_end(state);
}

static int error_of(void)
{
	int v = -1;
	socklen_t len = sizeof(v);

	assert_int_equal(rsocket_get_option(fd, SOL_SOCKET, SO_ERROR, &v, &len), 0);
	return v;
}

static int try(void)
{
	return rsocket_connect(fd, name, sizeof(a));
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
	fix_nonblock(fd, true);
	assert_int_equal(try(), -EINPROGRESS);
	assert_int_equal(try(), -EALREADY);
	assert_int_equal(fix_poll(fd, POLLOUT), 0);
	fix_service();
	assert_int_equal(fix_poll(fd, POLLOUT), POLLOUT | POLLERR | POLLHUP);
	assert_int_equal(error_of(), ECONNREFUSED);
	assert_int_equal(try(), -EINPROGRESS);
	fix_service();
	assert_int_equal(try(), -ECONNREFUSED); /* this time connect reports it */
	listener = fix_listen(&a, 1);
	assert_int_equal(try(), -EINPROGRESS);
	fix_service();
	assert_int_equal(fix_poll(fd, POLLOUT), POLLOUT);
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
	assert_int_equal(rsocket_bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
	assert_int_equal(rsocket_name(fd, false, (struct sockaddr *)&own, &len), 0);
	port = own.sin_port;
	assert_int_equal(try(), -ECONNREFUSED);
	assert_int_equal(try(), -ECONNREFUSED);
	assert_int_equal(rsocket_name(fd, false, (struct sockaddr *)&own, &len), 0);
	assert_int_equal(own.sin_port, port);
}

/* An event of an id that the socket gave up after the event was read. */
static void an_event_of_an_id_that_was_given_up(void **state)
{
	struct rdma_cm_id old = { .context = fix_sock(fd) };
	struct rdma_cm_event ev = { .id = &old, .event = RDMA_CM_EVENT_REJECTED };
	struct rsock *rs = fix_sock(fd);

	(void)state;
	fix.deaf = true;
	fix_nonblock(fd, true);
	assert_int_equal(try(), -EINPROGRESS);
	assert_int_equal(rsock_connect_event(rs, &ev), RSOCK_AFTER_NOTHING);
	assert_int_equal(rs->state, RSOCK_CONNECTING);
	ev.id = rsock_stream_of(rs)->id;
	assert_int_equal(rsock_connect_event(rs, &ev), RSOCK_AFTER_NOTHING);
	assert_int_equal(rs->state, RSOCK_DOWN);
}

static void what_cannot_be_made(void **state)
{
	int listener = fix_listen(&a, 8), rc = -1;

	(void)state;
	for (unsigned n = 1; rc && n < 30; n++) {
		fix_fail(n);
		rc = try();
		assert_true(rc == 0 || rc == -ENOMEM || rc == -ECONNREFUSED);
		assert_true(rc == 0 || fix_sock(fd)->state == RSOCK_NEW ||
			    fix_sock(fd)->state == RSOCK_DOWN);
	}
	assert_int_equal(rc, 0);
	fix.fail = 0;
	assert_int_equal(rsocket_close(listener), 0);
}

static void addresses_that_do_not_fit(void **state)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };

	(void)state;
	assert_int_equal(rsocket_connect(fd, (struct sockaddr *)&six, sizeof(six)),
			 -EAFNOSUPPORT);
	assert_int_equal(rsocket_connect(fd, name, 4), -EINVAL);
	assert_int_equal(rsocket_connect(fd, NULL, sizeof(a)), -EFAULT);
	assert_int_equal(rsocket_connect(fd, name, 1), -EINVAL);
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
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
