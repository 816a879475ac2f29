/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls by descriptor, rpoll() and rselect(), and what a fork leaves of sockets. */
#include "rsocket/rsocket.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "rsocket/backlog.h"
#include "rsocket/fix.h"
#include "rsocket/os.h"
#include "rsocket/service_thread.h"
#include "rsocket/sock.h"
#include "sys/held.h"

/* --- the calls ----------------------------------------------------------- */

static void kinds_that_there_are(void **state)
{
	static const struct {
		int domain, type, protocol, rc;
	} rows[] = {
		{ AF_INET, SOCK_STREAM, 0, 0 },
		{ AF_INET6, SOCK_STREAM, IPPROTO_TCP, 0 },
		{ AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP, 0 },
		{ AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 0, 0 },
		{ AF_UNIX, SOCK_STREAM, 0, -EAFNOSUPPORT },
		{ -1, SOCK_STREAM, 0, -EAFNOSUPPORT },
		{ AF_INET, SOCK_RAW, 0, -EPROTONOSUPPORT },
		{ AF_INET, SOCK_STREAM, IPPROTO_UDP, -EPROTONOSUPPORT },
		{ AF_INET, SOCK_DGRAM, IPPROTO_TCP, -EPROTONOSUPPORT },
		{ AF_INET, -1, 0, -EPROTONOSUPPORT },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int fd = rsocket_open(rows[i].domain, rows[i].type, rows[i].protocol);

		assert_int_equal(fd < 0 ? fd : 0, rows[i].rc);
		if (fd < 0)
			continue;
		assert_int_equal(rsocket_fcntl(fd, F_GETFL, 0),
				 O_RDWR |
					 (rows[i].type & SOCK_NONBLOCK ? O_NONBLOCK : 0));
		assert_int_equal(rsocket_close(fd), 0);
	}
}

/* Makes call n of a descriptor that is no rsocket. */
static int call(int n, int fd)
{
	struct sockaddr_in a = fix_addr(1, 7);
	socklen_t len = sizeof(a);
	struct iovec iov = { &a, 1 };
	int flags = 0;
	off_t at;

	switch (n) {
	case 0:
		return rsocket_bind(fd, (struct sockaddr *)&a, len);
	case 1:
		return rsocket_listen(fd, 1);
	case 2:
		return rsocket_accept(fd, NULL, NULL);
	case 3:
		return rsocket_connect(fd, (struct sockaddr *)&a, len);
	case 4:
		return rsocket_name(fd, false, (struct sockaddr *)&a, &len);
	case 5:
		return rsocket_shutdown(fd, SHUT_RDWR);
	case 6:
		return (int)rsocket_send(fd, &iov, 1, 0, NULL, 0);
	case 7:
		return (int)rsocket_receive(fd, &iov, 1, &flags, NULL, NULL);
	case 8:
		return rsocket_set_option(fd, SOL_SOCKET, SO_KEEPALIVE, &flags, 4);
	case 9:
		return rsocket_get_option(fd, SOL_SOCKET, SO_TYPE, &flags, &len);
	case 10:
		return rsocket_fcntl(fd, F_GETFL, 0);
	case 11:
		return rsocket_map(fd, &a, 1, 0, 0, &at);
	case 12:
		return rsocket_unmap(fd, &a, 1);
	case 13:
		return (int)rsocket_write_at(fd, &a, 1, 0, 0);
	default:
		return 1;
	}
}

static void descriptors_that_are_none_of_ours(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	for (int n = 0; n < 14; n++) {
		assert_int_equal(call(n, fds[0]), -EBADF);
		assert_int_equal(call(n, -1), -EBADF);
		assert_int_equal(call(n, INT32_MAX), -EBADF);
	}
	assert_int_equal(rsocket_close(fds[0]), -EBADF);
	close(fds[0]);
	close(fds[1]);
}

static int in_child(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int own;

	for (int n = 0; n < 14; n++)
		if (call(n, fd) != -EIO)
			return 1 + n;
	if (rsocket_poll(&p, 1, -1) != 1 || p.revents != POLLERR)
		return 20;
	if (rsocket_close(fd) || rsocket_close(fd) != -EBADF)
		return 21;
	own = rsocket_open(AF_INET, SOCK_DGRAM, 0);
	return own < 0 || rsocket_close(own) ? 22 : 0;
}

static void a_fork(void **state)
{
	int ends[2], dg = rsocket_open(AF_INET, SOCK_DGRAM, 0), status;
	char c;

	(void)state;
	fix_pair(ends);
	for (int i = 0; i < 3; i++) {
		int fd = i < 2 ? ends[i] : dg;
		pid_t pid = fork();

		if (!pid)
			_exit(in_child(fd));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	assert_int_equal(fix_send(ends[0], "x", 1, 0), 1);
	assert_int_equal(fix_receive(ends[1], &c, 1, 0), 1);
	assert_int_equal(rsocket_close(ends[0]), 0);
	assert_int_equal(rsocket_close(ends[1]), 0);
	assert_int_equal(rsocket_close(dg), 0);
}

static int first_fork; /* -1: not yet; else how the child ended */

static void fork_now(void)
{
	struct rdma_event_channel *ch;
	pid_t pid;

	fix.making = NULL;
	pid = fork();
	if (!pid)
		_exit(rsock_service(&ch) ? 1 : 0);
	assert_int_equal(waitpid(pid, &first_fork, 0), pid);
}

/* The fork comes while another thread, or the call that a handler interrupts, starts the
 * service. (Must be the first test that does.) */
static void a_fork_while_the_service_starts(void **state)
{
	struct rdma_event_channel *ch;
	int fd = rsocket_open(AF_INET, SOCK_DGRAM, 0);

	(void)state;
	first_fork = -1;
	fix.making = fork_now;
	assert_int_equal(rsock_service(&ch), 0);
	assert_int_equal(first_fork, 0);
	assert_int_equal(rsocket_close(fd), 0);
}

/* A handler has interrupted a call of its thread that has these locks. */
static void a_fork_within_a_call(void **state)
{
	int fd = rsocket_open(AF_INET, SOCK_STREAM, 0), status;
	pid_t pid;

	(void)state;
	held_begin();
	for (int i = 0; i < 2; i++) {
		bool has = i ? rsock_table_lock() : rsock_backlogs_lock();

		assert_true(has);
		pid = fork();
		if (!pid)
			_exit(0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		i ? rsock_table_unlock() : rsock_backlogs_unlock();
	}
	held_end();
	assert_int_equal(rsocket_close(fd), 0);
}

static void flags_of_a_descriptor(void **state)
{
	int fd = rsocket_open(AF_INET, SOCK_STREAM, 0);

	(void)state;
	assert_int_equal(rsocket_fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rsocket_fcntl(fd, F_GETFL, 0), O_RDWR | O_NONBLOCK);
	assert_int_equal(rsocket_fcntl(fd, F_GETFD, 0), FD_CLOEXEC);
	assert_int_equal(rsocket_fcntl(fd, F_SETFD, 0), 0);
	assert_int_equal(fcntl(fd, F_GETFD), 0);
	assert_int_equal(rsocket_fcntl(fd, F_DUPFD, 0), -EINVAL);
	assert_int_equal(rsocket_close(fd), 0);
}

/* librspreload asks for the length of a name without room for the name. */
static void the_length_of_a_name_alone(void **state)
{
	int fd = rsocket_open(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in a;
	socklen_t len = 0;

	(void)state;
	assert_int_equal(rsocket_name(fd, false, NULL, &len), 0);
	assert_int_equal(len, sizeof(struct sockaddr_in));
	assert_int_equal(rsocket_name(fd, false, NULL, &len), -EFAULT);
	assert_int_equal(rsocket_name(fd, false, (struct sockaddr *)&a, NULL), -EFAULT);
	assert_int_equal(rsocket_get_option(fd, SOL_SOCKET, SO_TYPE, NULL, &len),
			 -EFAULT);
	assert_int_equal(rsocket_close(fd), 0);
}

static void no_descriptor_is_left(void **state)
{
	struct rlimit was, none;
	int a, b;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = was;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &none);
	a = rsocket_open(AF_INET, SOCK_STREAM, 0);
	b = rsocket_open(AF_INET, SOCK_DGRAM, 0);
	setrlimit(RLIMIT_NOFILE, &was);
	assert_int_equal(a, -EMFILE);
	assert_int_equal(b, -EMFILE);
}

/* --- rpoll() and rselect() ----------------------------------------------- */

enum { MANY = 40 };

static int ends[2], other[2], dg;

static int begin(void **state)
{
	fix_begin(state);
	fix_pair(ends);
	dg = rsocket_open(AF_INET, SOCK_DGRAM, 0);
	fix.slept = 0;
	return pipe(other);
}

static int end(void **state)
{
	assert_int_equal(rsocket_close(ends[0]), 0);
	assert_int_equal(rsocket_close(ends[1]), 0);
	assert_int_equal(rsocket_close(dg), 0);
	close(other[0]);
	close(other[1]);
	return fix_end(state);
}

static void ours_and_others(void **state)
{
	struct pollfd p[] = {
		{ ends[0], POLLIN, 0 },	     { ends[1], POLLIN | POLLOUT, 0 },
		{ other[0], POLLIN, 0 },     { other[1], POLLOUT, 0 },
		{ dg, POLLIN | POLLOUT, 0 }, { -1, POLLIN, 7 },
		{ 999, POLLIN, 0 }
	};

	(void)state;
	assert_int_equal(rsocket_poll(p, 7, 0), 4);
	assert_int_equal(p[0].revents, 0);
	assert_int_equal(p[1].revents, POLLOUT);
	assert_int_equal(p[2].revents, 0);
	assert_int_equal(p[3].revents, POLLOUT);
	assert_int_equal(p[4].revents, POLLOUT);
	assert_int_equal(p[5].revents, 0);
	assert_int_equal(p[6].revents, POLLNVAL);
}

static void send_it(void)
{
	assert_int_equal(fix_send(ends[0], "x", 1, 0), 1);
}

static void write_it(void)
{
	assert_int_equal(write(other[1], "x", 1), 1);
}

static void it_sleeps_until_one_has_something(void **state)
{
	struct pollfd p[] = { { other[0], POLLIN, 0 }, { ends[1], POLLIN, 0 } };
	char c;

	(void)state;
	fix_when_asleep(send_it);
	assert_int_equal(rsocket_poll(p, 2, -1), 1);
	assert_int_equal(p[1].revents, POLLIN);
	assert_int_equal(fix_receive(ends[1], &c, 1, 0), 1);
	fix_when_asleep(write_it);
	assert_int_equal(rsocket_poll(p, 2, -1), 1);
	assert_int_equal(p[0].revents, POLLIN);
	assert_int_equal(p[1].revents, 0);
}

static void a_limit(void **state)
{
	struct pollfd p = { ends[1], POLLIN, 0 };
	uint64_t begun = fix.now;

	(void)state;
	assert_int_equal(rsocket_poll(&p, 1, 50), 0);
	assert_in_range(fix.now - begun, 50 * RSOCK_MS, 51 * RSOCK_MS);
	p.fd = other[0]; /* not an rsocket */
	begun = fix.now;
	assert_int_equal(rsocket_poll(&p, 1, 50), 0);
	assert_in_range(fix.now - begun, 50 * RSOCK_MS, 51 * RSOCK_MS);
	assert_int_equal(rsocket_poll(&p, 1, 0), 0);
}

/* More entries than a set keeps on the stack. */
static void many_entries(void **state)
{
	struct pollfd p[MANY];

	(void)state;
	for (int i = 0; i < MANY; i++)
		p[i] = (struct pollfd){ i % 2 ? other[0] : ends[1], POLLIN, 0 };
	fix_when_asleep(send_it);
	assert_int_equal(rsocket_poll(p, MANY, -1), MANY / 2);
}

/* A socket that becomes ready while it is armed, but wakes no thread. */
static bool ready;

static short events(struct rsock *rs, short asked)
{
	(void)rs;
	return ready ? asked : 0;
}

static void arm(struct rsock *rs, bool for_space)
{
	(void)rs;
	(void)for_space;
	ready = true;
}

static void take_events(struct rsock *rs)
{
	(void)rs;
}

static void what_comes_in_between(void **state)
{
	static const struct rsock_kind kind = {
		.events = events,
		.arm = arm,
		.take_events = take_events,
		.free = rsock_fini,
	};
	struct rsock *rs = malloc(sizeof(*rs));
	struct pollfd p = { .events = POLLIN };

	(void)state;
	assert_non_null(rs);
	rsock_init(rs, &kind, AF_INET, SOCK_STREAM);
	assert_true(rsock_entry_publish(&rs->entry) >= 0);
	p.fd = rs->entry.fd;
	assert_int_equal(rsocket_poll(&p, 1, -1), 1);
	assert_int_equal(p.revents, POLLIN);
	assert_int_equal(fix.slept, 0);
	rsock_entry_put(rsock_entry_withdraw(p.fd));
}

static void close_it(void)
{
	assert_int_equal(rsocket_close(dg), 0);
}

static void a_socket_that_is_closed_meanwhile(void **state)
{
	struct pollfd p = { dg, POLLIN, 0 };

	(void)state;
	fix_when_asleep(close_it);
	assert_int_equal(rsocket_poll(&p, 1, -1), 1);
	assert_int_equal(p.revents, POLLNVAL);
	dg = rsocket_open(AF_INET, SOCK_DGRAM, 0);
}

static void selecting(void **state)
{
	fd_set in, out, except;
	struct timeval t = { 0, 30000 };
	uint64_t begun = fix.now;
	int n = other[1] + 1;

	(void)state;
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_ZERO(&except);
	FD_SET(ends[1], &in);
	FD_SET(other[0], &in);
	FD_SET(ends[1], &except);
	assert_int_equal(rsocket_select(n, &in, &out, &except, &t), 0);
	assert_in_range(fix.now - begun, 30 * RSOCK_MS, 31 * RSOCK_MS);
	assert_false(FD_ISSET(ends[1], &in) || FD_ISSET(other[0], &in));
	FD_SET(ends[1], &in);
	FD_SET(other[0], &in);
	FD_SET(ends[1], &out);
	send_it();
	assert_int_equal(rsocket_select(n, &in, &out, &except, NULL), 2);
	assert_true(FD_ISSET(ends[1], &in) && FD_ISSET(ends[1], &out));
	assert_false(FD_ISSET(other[0], &in) || FD_ISSET(ends[1], &except));
}

static void hostile_numbers(void **state)
{
	struct timeval long_time = { INT64_MAX, 0 };
	fd_set in;

	(void)state;
	assert_int_equal(rsocket_select(-1, NULL, NULL, NULL, NULL), -EINVAL);
	assert_int_equal(rsocket_select(FD_SETSIZE + 1, NULL, NULL, NULL, NULL), -EINVAL);
	FD_ZERO(&in);
	FD_SET(500, &in); /* no such descriptor */
	assert_int_equal(rsocket_select(501, &in, NULL, NULL, NULL), -EBADF);
	FD_ZERO(&in);
	FD_SET(ends[1], &in);
	fix_when_asleep(send_it);
	assert_int_equal(rsocket_select(ends[1] + 1, &in, NULL, NULL, &long_time), 1);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_fork_while_the_service_starts, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(kinds_that_there_are, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(descriptors_that_are_none_of_ours, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(a_fork, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(a_fork_within_a_call, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(flags_of_a_descriptor, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(the_length_of_a_name_alone, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(no_descriptor_is_left, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(ours_and_others, begin, end),
		cmocka_unit_test_setup_teardown(it_sleeps_until_one_has_something, begin, end),
		cmocka_unit_test_setup_teardown(a_limit, begin, end),
		cmocka_unit_test_setup_teardown(many_entries, begin, end),
		cmocka_unit_test_setup_teardown(what_comes_in_between, begin, end),
		cmocka_unit_test_setup_teardown(a_socket_that_is_closed_meanwhile, begin, end),
		cmocka_unit_test_setup_teardown(selecting, begin, end),
		cmocka_unit_test_setup_teardown(hostile_numbers, begin, end),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
