/* SPDX-License-Identifier: BSD-2-Clause */
#include "sys/rights.h"
#include "sys/unread.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int pair[2];

static int begin(void **state)
{
	(void)state;
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int end(void **state)
{
	(void)state;
	close(pair[0]);
	close(pair[1]);
	return 0;
}

/* Sends n descriptors of the same file.  Returns 0 or -errno. */
static int send_some(const int *fds, unsigned n)
{
	struct iovec iov = { &(char){ 'x' }, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	union {
		struct cmsghdr head;
		char room[RIGHTS_ROOM];
	} u;

	rights_put(&m, &u.head, fds, n);
	return sendmsg(pair[0], &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static unsigned take(int *fds, unsigned max)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	union {
		struct cmsghdr head;
		char room[RIGHTS_ROOM];
	} u;
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u) };

	assert_int_equal(recvmsg(pair[1], &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC), 1);
	return rights_take(&m, geteuid(), fds, max);
}

static void the_first_are_the_callers(void **state)
{
	int fds[RIGHTS_MAX], got[4] = { 0 }, end_of[2];
	char byte;

	(void)state;
	assert_int_equal(pipe2(end_of, O_CLOEXEC), 0);
	for (int i = 0; i < RIGHTS_MAX; i++)
		fds[i] = i < 2 ? STDERR_FILENO : end_of[1];
	assert_int_equal(send_some(fds, RIGHTS_MAX), 0);
	close(end_of[1]);
	assert_int_equal(take(got, 2), RIGHTS_MAX);
	assert_true(got[0] > STDERR_FILENO && got[1] > STDERR_FILENO);
	/* No write end is left once the others are closed */
	assert_int_equal(read(end_of[0], &byte, 1), 0);
	close(got[0]);
	close(got[1]);
	close(end_of[0]);
	assert_int_equal(send_some(fds, 1), 0);
	assert_int_equal(take(got, 4), 1);
	for (int i = 1; i < 4; i++)
		assert_int_equal(got[i], -1);
	close(got[0]);
	assert_int_equal(send(pair[0], "x", 1, 0), 1);
	assert_int_equal(take(got, 1), 0);
	assert_int_equal(got[0], -1);
}

static void refused_and_allowed(void **state)
{
	int fd = STDERR_FILENO, got;

	(void)state;
	if (!rights_refuse(pair[1])) {
		fprintf(stderr, "SKIPPED: this kernel does not refuse descriptors\n");
		skip();
	}
	assert_int_equal(send_some(&fd, 1), -EPERM);
	rights_allow(pair[1]);
	assert_int_equal(send_some(&fd, 1), 0);
	assert_int_equal(take(&got, 1), 1);
	close(got);
}

/* Messages are discarded, empty ones too, up to one with descriptors. */
static void what_lies_unread(void **state)
{
	int fd = STDERR_FILENO, got;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(send(pair[0], "xyz", (size_t)i, 0), i);
	assert_int_equal(send_some(&fd, 1), 0);
	assert_int_equal(send(pair[0], "x", 1, 0), 1);
	assert_int_equal(shutdown(pair[1], SHUT_RD), 0);
	assert_false(unread_drop(pair[1]));
	assert_int_equal(take(&got, 1), 1);
	close(got);
	assert_true(unread_drop(pair[1]));
	assert_true(unread_drop(pair[1]));
}

/* After its peer has closed with unread messages, a socket returns ECONNRESET first. */
static void after_an_end(void **state)
{
	int fd = STDERR_FILENO;

	(void)state;
	assert_int_equal(send(pair[0], "x", 1, 0), 1);
	assert_int_equal(send(pair[1], "x", 1, 0), 1);
	close(pair[0]);
	shutdown(pair[1], SHUT_RD);
	assert_true(unread_drop(pair[1]));
	close(pair[1]);
	begin(state);
	assert_int_equal(send_some(&fd, 1), 0);
	assert_int_equal(send(pair[1], "x", 1, 0), 1);
	close(pair[0]);
	shutdown(pair[1], SHUT_RD);
	assert_false(unread_drop(pair[1]));
	close(pair[1]);
	begin(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_first_are_the_callers, begin, end),
		cmocka_unit_test_setup_teardown(refused_and_allowed, begin, end),
		cmocka_unit_test_setup_teardown(what_lies_unread, begin, end),
		cmocka_unit_test_setup_teardown(after_an_end, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
