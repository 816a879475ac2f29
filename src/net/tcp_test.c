/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/stream.h"
#include "net/stream_testing.h"

static void streams(struct stream *s[2])
{
	int fd[2];

	tcp_pair(fd);
	for (int i = 0; i < 2; i++)
		assert_int_equal(stream_tcp_open(&s[i], fd[i]), 0);
}

static void wait_for(const struct stream *s, short events)
{
	struct pollfd p = { s->fd, events, 0 };

	assert_int_equal(poll(&p, 1, -1), 1);
}

static void what_goes_in_comes_out(void **state)
{
	char a[] = "one ", b[] = "two ", c[] = "three", got[20] = "";
	struct iovec v[3] = { { a, 4 }, { b, 4 }, { c, 5 } };
	struct iovec to[2] = { { got, 3 }, { got + 3, 17 } };
	struct stream *s[2];
	int one = 0;
	socklen_t len = sizeof(one);

	(void)state;
	streams(s);
	assert_int_equal(getsockopt(s[0]->fd, IPPROTO_TCP, TCP_NODELAY, &one, &len), 0);
	assert_int_equal(one, 1);
	assert_true(fcntl(s[0]->fd, F_GETFD) & FD_CLOEXEC);
	assert_true(s[0]->mss > 1400); /* the MSS of loopback */
	assert_int_equal(s[1]->ops->recv(s[1], to, 2, 0), 0);
	assert_int_equal(s[0]->ops->send(s[0], v, 3, 0), 13);
	wait_for(s[1], POLLIN);
	assert_int_equal(s[1]->ops->recv(s[1], to, 2, 0), 13);
	assert_string_equal(got, "one two three");
	s[0]->ops->fin(s[0]);
	wait_for(s[1], POLLIN);
	assert_int_equal(s[1]->ops->recv(s[1], to, 2, 0), -ESHUTDOWN);
	/* The other direction is still open. */
	assert_int_equal(s[1]->ops->send(s[1], v, 1, 0), 4);
	wait_for(s[0], POLLIN);
	assert_int_equal(s[0]->ops->recv(s[0], to, 2, 0), 4);
	s[0]->ops->close(s[0]);
	s[1]->ops->close(s[1]);
}

/* An end that closes with bytes unread does not take from its peer the last bytes that
 * it has sent. */
static void closed_with_bytes_unread(void **state)
{
	static char much[20000]; /* less than a TCP window */
	struct iovec v = { much, sizeof(much) }, last = { much, 7 };
	struct stream *s[2];

	(void)state;
	streams(s);
	assert_true(s[0]->ops->send(s[0], &v, 1, 0) > 0);
	wait_for(s[1], POLLIN);
	assert_int_equal(s[1]->ops->send(s[1], &last, 1, 0), 7);
	s[1]->ops->close(s[1]);
	wait_for(s[0], POLLIN);
	assert_int_equal(s[0]->ops->recv(s[0], &v, 1, 0), 7);
	wait_for(s[0], POLLIN);
	assert_int_equal(s[0]->ops->recv(s[0], &v, 1, 0), -ESHUTDOWN);
	s[0]->ops->close(s[0]);
}

static void full_and_lost(void **state)
{
	static char much[1 << 20];
	struct iovec v = { much, sizeof(much) };
	struct linger now = { 1, 0 };
	struct stream *s[2];
	ssize_t n, all = 0;

	(void)state;
	streams(s);
	while ((n = s[0]->ops->send(s[0], &v, 1, 0)) > 0)
		all += n;
	assert_int_equal(n, 0);
	assert_true(all > 0);
	setsockopt(s[1]->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	s[1]->ops->close(s[1]);
	wait_for(s[0], POLLIN);
	assert_int_equal(s[0]->ops->recv(s[0], &v, 1, 0), -ECONNRESET);
	assert_int_equal(s[0]->ops->send(s[0], &v, 1, 0), -EPIPE);
	s[0]->ops->close(s[0]);
}

static void memory_that_is_not_there(void **state)
{
	char *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	struct iovec v = { at + 4096, 100 };
	struct stream *s[2];

	(void)state;
	munmap(at + 4096, 4096);
	streams(s);
	assert_int_equal(s[0]->ops->send(s[0], &v, 1, 0), -EFAULT);
	v.iov_base = at;
	assert_int_equal(s[0]->ops->send(s[0], &v, 1, 0), 100);
	munmap(at, 4096);
	s[0]->ops->close(s[0]);
	s[1]->ops->close(s[1]);
}

static void what_is_no_connection(void **state)
{
	int fd[2], un = socket(AF_INET, SOCK_STREAM, 0);
	struct stream *s[2];

	(void)state;
	assert_int_equal(stream_tcp_open(&s[0], -1), -EBADF);
	assert_int_equal(stream_tcp_open(&s[0], un), -ENOTCONN);
	close(un);
	/* A descriptor that has become another file is not closed. */
	streams(s);
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(dup2(fd[1], s[0]->fd), s[0]->fd);
	un = s[0]->fd;
	s[0]->ops->close(s[0]);
	assert_int_equal(write(un, "x", 1), 1);
	close(un);
	close(fd[0]);
	close(fd[1]);
	s[1]->ops->close(s[1]);
}

/* The program has closed the stream's descriptor, and a socket of its own has the
 * number. */
static void a_number_taken_over(void **state)
{
	char byte = 'x', got[8];
	struct iovec v = { &byte, 1 };
	struct stream *s[2];
	int own[2], fd;

	(void)state;
	streams(s);
	fd = s[0]->fd;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, own), 0);
	assert_int_equal(dup2(own[0], fd), fd);
	assert_int_equal(write(own[1], "a", 1), 1);
	assert_int_equal(s[0]->ops->send(s[0], &v, 1, 0), -EBADF);
	assert_int_equal(s[0]->ops->recv(s[0], &v, 1, 0), -EBADF);
	s[0]->ops->fin(s[0]);
	s[0]->ops->close(s[0]);
	assert_int_equal(write(fd, "b", 1), 1);
	assert_int_equal(recv(own[1], got, sizeof(got), 0), 1);
	assert_int_equal(got[0], 'b');
	assert_int_equal(read(fd, got, sizeof(got)), 1);
	assert_int_equal(got[0], 'a');
	close(fd);
	close(own[0]);
	close(own[1]);
	s[1]->ops->close(s[1]);
}

/* Keepalives notice a host that is gone; a peer that only does not read is never timed
 * out. */
static void timeouts(void **state)
{
	struct stream *s[2];
	int fd, keepalive = 0, user_timeout = -1;
	socklen_t len = sizeof(int);

	(void)state;
	streams(s);
	fd = s[0]->fd;
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &keepalive, &len), 0);
	assert_int_equal(keepalive, 1);
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout,
				    &len),
			 0);
	assert_int_equal(user_timeout, 0);
	for (int i = 0; i < 2; i++)
		s[i]->ops->close(s[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_number_taken_over),
		cmocka_unit_test(timeouts),
		cmocka_unit_test(what_goes_in_comes_out),
		cmocka_unit_test(closed_with_bytes_unread),
		cmocka_unit_test(full_and_lost),
		cmocka_unit_test(memory_that_is_not_there),
		cmocka_unit_test(what_is_no_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
