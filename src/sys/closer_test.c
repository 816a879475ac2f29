/* SPDX-License-Identifier: BSD-2-Clause */
#include "sys/closer.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sys/msg.h"
#include "sys/nothread_testing.h"
#include "sys/stuck_testing.h"

enum { ANN = 1000, BOB };

/* Makes the write end of a pipe; its read end, *other, shows when it is closed. */
static int make_end(int *other)
{
	int end[2];

	assert_int_equal(pipe2(end, O_CLOEXEC), 0);
	*other = end[0];
	return end[1];
}

static void await_close(int other)
{
	char byte;

	assert_int_equal(read(other, &byte, 1), 0);
	close(other);
}

static void what_is_put_is_closed(void **state)
{
	enum { N = 200 };
	int other[N];

	(void)state;
	closer_put(ANN, -1);
	for (int i = 0; i < N; i++)
		closer_put(ANN, make_end(&other[i]));
	for (int i = 0; i < N; i++)
		await_close(other[i]);
	assert_false(closer_is_full_of(ANN));
}

/* A descriptor whose close hangs holds up others, but not the caller of closer_put(). */
static void one_that_hangs(void **state)
{
	struct stuck s;
	int other[200], n;

	(void)state;
	if (!stuck_begin(&s))
		skip();
	closer_put(ANN, s.fd);
	/* Descriptors that are put later may be closed before it. */
	for (n = 0; n < 200 && !closer_is_full_of(ANN); n++)
		closer_put(ANN, make_end(&other[n]));
	assert_true(closer_is_full_of(ANN));
	stuck_end(&s);
	while (n > 0)
		await_close(other[--n]);
	assert_false(closer_is_full_of(ANN));
}

static void put_many(uid_t uid, int *other, int n)
{
	for (int i = 0; i < n; i++)
		closer_put(uid, make_end(&other[i]));
}

static void await_many(int *other, int n)
{
	assert_true(closer_try_again());
	while (n > 0)
		await_close(other[--n]);
	assert_false(closer_is_full() || closer_is_full_of(ANN) ||
		     closer_is_full_of(BOB));
}

/* A user who has sent as many descriptors as allowed leaves room for another user. */
static void each_user_has_room(void **state)
{
	enum { ONE = CLOSER_EACH - 1 + MSG_FDS_SENT, ALL = ONE + CLOSER_EACH };
	int other[CLOSER_ALL];

	(void)state;
	assert_true((int)ALL <= (int)CLOSER_ALL);
	nothread_begin();
	put_many(ANN, other, CLOSER_EACH - 1);
	assert_false(closer_is_full_of(ANN));
	put_many(ANN, other + CLOSER_EACH - 1, MSG_FDS_SENT);
	assert_true(closer_is_full_of(ANN));
	assert_false(closer_is_full_of(BOB) || closer_is_full());
	put_many(BOB, other + ONE, CLOSER_EACH - 1);
	assert_false(closer_is_full_of(BOB) || closer_is_full());
	put_many(BOB, other + ALL - 1, 1);
	assert_true(closer_is_full_of(BOB));
	assert_false(closer_is_full());
	put_many(ANN, other + ALL, CLOSER_ALL - ALL);
	assert_true(closer_is_full() && closer_is_full_of(BOB + 1));
	nothread_end();
	await_many(other, CLOSER_ALL);
}

/* A thread that could not be started is started as soon as it can be. */
static void no_thread_at_first(void **state)
{
	int other[CLOSER_ALL];

	(void)state;
	nothread_begin();
	put_many(ANN, other, CLOSER_ALL);
	assert_true(closer_is_full());
	assert_false(closer_try_again());
	nothread_end();
	await_many(other, CLOSER_ALL);
	assert_true(closer_try_again());
}

/* The other end of a connection sees its end at once; without a descriptor in it, it is
 * closed at once, too. */
static void connections(void **state)
{
	char byte;

	(void)state;
	nothread_begin();
	for (int with = 0; with < 2; with++) {
		struct iovec iov = { &(char){ 'x' }, 1 };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
		union {
			struct cmsghdr head;
			char room[CMSG_SPACE(sizeof(int))];
		} u;
		int pair[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
		if (with)
			msg_put_fds(&m, &u.head, pair, 1);
		assert_int_equal(sendmsg(pair[0], &m, 0), 1);
		closer_hang_up(pair[1]);
		errno = 0;
		/* No ECONNRESET: nothing was unread when it was closed */
		assert_int_equal(recv(pair[0], &byte, 1, MSG_DONTWAIT), 0);
		assert_int_equal(fcntl(pair[1], F_GETFD) == -1, !with);
		assert_int_equal(closer_try_again(), !with);
		close(pair[0]);
	}
	nothread_end();
	assert_true(closer_try_again());
}

static int pair_of(int pair[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static void send_along(int to, int fd)
{
	struct iovec iov = { &(char){ 'x' }, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} u;

	msg_put_fds(&m, &u.head, &fd, 1);
	assert_int_equal(sendmsg(to, &m, 0), 1);
}

/* What lies unread is discarded, empty messages too, up to one with a descriptor; also
 * where the other end has closed with something unread itself (ECONNRESET). */
static void what_lies_unread(void **state)
{
	int pair[2];

	(void)state;
	nothread_begin();
	for (int how = 0; how < 4; how++) {
		const bool with = how & 1, ended = how & 2;

		assert_int_equal(pair_of(pair), 0);
		for (int i = 0; i < 3; i++)
			assert_int_equal(send(pair[0], "xyz", (size_t)i, 0), i);
		if (with)
			send_along(pair[0], STDERR_FILENO);
		assert_int_equal(send(pair[0], "x", 1, 0), 1);
		assert_int_equal(send(pair[1], "x", 1, 0), 1);
		if (ended)
			close(pair[0]);
		closer_hang_up(pair[1]);
		assert_int_equal(fcntl(pair[1], F_GETFD) == -1, !with);
		if (!ended)
			close(pair[0]);
	}
	nothread_end();
	assert_true(closer_try_again());
}

#if defined(__SANITIZE_THREAD__)
/* Otherwise ThreadSanitizer ends a child of a fork that starts a thread. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}
#endif

/* A child of a fork has no such thread. */
static void a_fork_begins_anew(void **state)
{
	struct stuck s;
	int other, status;
	pid_t pid;

	(void)state;
	if (!stuck_begin(&s))
		skip();
	closer_put(ANN, s.fd);
	pid = fork();
	if (pid == 0) {
		int of_child;

		closer_forked();
		closer_put(ANN, make_end(&of_child));
		await_close(of_child);
		_exit(closer_is_full_of(ANN));
	}
	stuck_end(&s);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	closer_put(ANN, make_end(&other));
	await_close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_put_is_closed),
		cmocka_unit_test(one_that_hangs),
		cmocka_unit_test(each_user_has_room),
		cmocka_unit_test(no_thread_at_first),
		cmocka_unit_test(connections),
		cmocka_unit_test(what_lies_unread),
		cmocka_unit_test(a_fork_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
