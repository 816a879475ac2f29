/* SPDX-License-Identifier: BSD-2-Clause */
/* A stream socket's id and its names. */
#include "rsocket/bind.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "rsocket/fix.h"
#include "rsocket/rsocket.h"

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

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_gets_a_port, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(a_port_that_is_taken, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(names_of_a_connection, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(without_a_connection_there_is_no_peer,
						fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(what_cannot_be_made, fix_begin, fix_end),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, start, NULL);
}
