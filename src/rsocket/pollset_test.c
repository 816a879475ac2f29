/* SPDX-License-Identifier: BSD-2-Clause */
/* rpoll and rselect over streams, datagram sockets and other descriptors. */
#include "rsocket/pollset.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "rsocket/fix.h"
#include "rsocket/os.h"
#include "rsocket/rsocket.h"
#include "rsocket/sock.h"

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
