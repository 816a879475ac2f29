/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending and receiving between two ends in one process. */
#include "rsocket/io.h"

#include <errno.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "rsocket/fix.h"
#include "rsocket/rsocket.h"

enum { BIG = 600000 };

static uint8_t out[BIG], in[BIG];
static int ends[2];

static int begin(void **state)
{
	fix_begin(state);
	for (int i = 0; i < BIG; i++)
		out[i] = (uint8_t)(i * 7 + i / 251);
	memset(in, 0, sizeof(in));
	fix_pair(ends);
	fix.slept = 0;
	return 0;
}

static int end(void **state)
{
	for (int i = 0; i < 2; i++)
		if (ends[i] >= 0)
			assert_int_equal(rsocket_close(ends[i]), 0);
	return fix_end(state);
}

static void close_end(int i)
{
	assert_int_equal(rsocket_close(ends[i]), 0);
	ends[i] = -1;
}

static void what_is_sent_is_read(void **state)
{
	(void)state;
	assert_int_equal(fix_send(ends[0], "hello", 5, 0), 5);
	assert_int_equal(fix_receive(ends[1], in, 100, MSG_PEEK), 5);
	assert_int_equal(fix_receive(ends[1], in, 2, 0), 2);
	assert_int_equal(fix_receive(ends[1], in + 2, 100, 0), 3);
	assert_memory_equal(in, "hello", 5);
	assert_int_equal(fix.slept, 0);
}

static void several_buffers_are_one_stream(void **state)
{
	const struct iovec from[] = { { out, 3 }, { out, 0 }, { out + 3, 200 } };
	struct iovec to[] = { { in, 100 }, { in + 100, 1000 } };
	struct sockaddr_in who;
	socklen_t len = sizeof(who);
	int flags = 0;

	(void)state;
	assert_int_equal(rsocket_send(ends[0], from, 3, 0, NULL, 0), 203);
	assert_int_equal(rsocket_receive(ends[1], to, 2, &flags, (struct sockaddr *)&who,
					 &len),
			 203);
	assert_memory_equal(in, out, 203);
	assert_int_equal(who.sin_addr.s_addr, htonl(0x7f000001));
}

static size_t got;

static void read_all(void)
{
	ssize_t n = 1;

	while (got < BIG &&
	       (n = fix_receive(ends[1], in + got, BIG - got, MSG_DONTWAIT)) > 0)
		got += (size_t)n;
	assert_true(n > 0 || n == -EAGAIN);
	fix_when_asleep(read_all);
}

static void a_sender_waits_for_room(void **state)
{
	(void)state;
	got = 0;
	fix_when_asleep(read_all);
	assert_int_equal(fix_send(ends[0], out, BIG, 0), BIG);
	fix.nasleep = 0;
	assert_true(fix.slept > 0);
	read_all();
	fix.nasleep = 0;
	assert_int_equal(got, BIG);
	assert_memory_equal(in, out, BIG);
}

static void what_fits_is_sent_without_waiting(void **state)
{
	ssize_t sent;

	(void)state;
	sent = fix_send(ends[0], out, BIG, MSG_DONTWAIT);
	assert_in_range(sent, 1, BIG - 1);
	assert_int_equal(fix_send(ends[0], out, 1, MSG_DONTWAIT), -EAGAIN);
	assert_int_equal(fix_nonblock(ends[0], true), 0);
	assert_int_equal(fix_send(ends[0], out, 1, 0), -EAGAIN);
	assert_int_equal(fix_receive(ends[1], in, BIG, MSG_WAITALL | MSG_DONTWAIT), sent);
	assert_memory_equal(in, out, (size_t)sent);
	assert_true(fix_send(ends[0], out, 1, 0) == 1);
	assert_int_equal(fix.slept, 0);
}

/* Nothing arrives at the peer: all buffers fill up, and nothing is lost. */
static void a_held_network_fills_up(void **state)
{
	ssize_t sent = 0, n;

	(void)state;
	fix.hold = true;
	while ((n = fix_send(ends[0], out + sent, 1000, MSG_DONTWAIT)) > 0)
		sent += n;
	assert_int_equal(n, -EAGAIN);
	assert_int_equal(fix_receive(ends[1], in, BIG, MSG_DONTWAIT), -EAGAIN);
	fix.hold = false;
	assert_int_equal(fix_receive(ends[1], in, (size_t)sent, MSG_WAITALL), sent);
	assert_memory_equal(in, out, (size_t)sent);
}

/* The reader makes no call but reads, and yet the sender can go on. */
static void a_read_grants_what_was_read(void **state)
{
	ssize_t sent = 0, n;

	(void)state;
	while ((n = fix_send(ends[0], out, 10000, MSG_DONTWAIT)) > 0)
		sent += n;
	fix_poll(ends[1], POLLIN);
	while ((n = fix_send(ends[0], out, 10000, MSG_DONTWAIT)) > 0)
		sent += n;
	rsock_conn_progress(fix_stream(ends[1]));
	assert_int_equal(fix_receive(ends[1], in, BIG, 0), sent);
	assert_int_equal(fix_send(ends[0], out, 10000, MSG_DONTWAIT), 10000);
}

/* On iWARP each grant takes a receive, and a missing receive ends the connection. So a
 * sender that never has to wait must still post receives again. */
static void a_sender_takes_in_grants(void **state)
{
	struct sockaddr_in a;
	int listener = fix_listen(&a, 1), fd, peer, size = 1024, receives = 2;

	(void)state;
	fix.iwarp = true;
	fd = rsocket_open(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(rsocket_set_option(listener, SOL_SOCKET, SO_RCVBUF, &size,
					    sizeof(size)),
			 0);
	assert_int_equal(rsocket_set_option(fd, SOL_RDMA, RDMA_RQSIZE, &receives,
					    sizeof(receives)),
			 0);
	assert_int_equal(rsocket_connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	peer = rsocket_accept(listener, NULL, NULL);
	for (int i = 0; i < 2000; i++) {
		assert_int_equal(fix_send(fd, out, 1000, 0), 1000);
		assert_int_equal(fix_receive(peer, in, 1000, MSG_WAITALL), 1000);
		fix_deliver();
	}
	assert_int_equal(rsocket_close(fd), 0);
	assert_int_equal(rsocket_close(peer), 0);
	assert_int_equal(rsocket_close(listener), 0);
	fix.iwarp = false;
}

static void send_late(void)
{
	assert_int_equal(fix_send(ends[0], "late", 4, 0), 4);
}

static void a_reader_waits(void **state)
{
	(void)state;
	fix_when_asleep(send_late);
	assert_int_equal(fix_receive(ends[1], in, 100, 0), 4);
	fix_when_asleep(send_late);
	fix_when_asleep(send_late);
	assert_int_equal(fix_receive(ends[1], in, 8, MSG_WAITALL), 8);
	assert_memory_equal(in, "latelate", 8);
}

static void lose(void)
{
	fix_lose(IBV_WC_RETRY_EXC_ERR);
}

static void a_lost_connection_is_told_once(void **state)
{
	(void)state;
	assert_int_equal(fix_send(ends[0], "before", 6, 0), 6);
	fix_when_asleep(lose);
	assert_int_equal(fix_receive(ends[0], in, 1, 0), -ECONNRESET);
	assert_int_equal(fix_receive(ends[0], in, 1, 0), 0);
	assert_int_equal(fix_send(ends[0], in, 1, 0), -EPIPE);
	/* Data that came before can be read. */
	assert_int_equal(fix_receive(ends[1], in, 10, 0), 6);
	assert_int_equal(fix_receive(ends[1], in, 10, 0), -ECONNRESET);
}

static void nobody_answers(void **state)
{
	(void)state;
	fix.lost = IBV_WC_RETRY_EXC_ERR;
	assert_int_equal(fix_send(ends[0], "x", 1, 0), 1);
	assert_int_equal(fix_receive(ends[0], in, 1, 0), -ETIMEDOUT);
}

static void the_end_is_read_as_such(void **state)
{
	(void)state;
	assert_int_equal(fix_send(ends[0], "last", 4, 0), 4);
	close_end(0);
	assert_int_equal(fix_receive(ends[1], in, 100, 0), 4);
	assert_int_equal(fix_receive(ends[1], in, 100, 0), 0);
	assert_int_equal(fix_send(ends[1], "x", 1, 0), -EPIPE);
}

static void close_it(void)
{
	close_end(1);
}

static void a_reader_whose_socket_is_closed(void **state)
{
	(void)state;
	fix_when_asleep(close_it);
	assert_int_equal(fix_receive(ends[1], in, 1, 0), -EBADF);
}

static void what_is_refused(void **state)
{
	int fd = rsocket_open(AF_INET, SOCK_STREAM, 0);

	(void)state;
	assert_int_equal(fix_send(ends[0], out, 1, MSG_OOB), -EOPNOTSUPP);
	assert_int_equal(fix_receive(ends[0], in, 1, MSG_OOB), -EOPNOTSUPP);
	assert_int_equal(fix_receive(ends[0], in, 0, 0), 0);
	assert_int_equal(fix_send(ends[0], out, 0, 0), 0);
	assert_int_equal(fix_send(fd, out, 1, 0), -ENOTCONN);
	assert_int_equal(fix_receive(fd, in, 1, 0), -ENOTCONN);
	assert_int_equal(rsocket_close(fd), 0);
	assert_int_equal(fix_send(fd, out, 1, 0), -EBADF);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_sent_is_read, begin, end),
		cmocka_unit_test_setup_teardown(several_buffers_are_one_stream, begin, end),
		cmocka_unit_test_setup_teardown(a_sender_waits_for_room, begin, end),
		cmocka_unit_test_setup_teardown(what_fits_is_sent_without_waiting, begin, end),
		cmocka_unit_test_setup_teardown(a_held_network_fills_up, begin, end),
		cmocka_unit_test_setup_teardown(a_read_grants_what_was_read, begin, end),
		cmocka_unit_test_setup_teardown(a_sender_takes_in_grants, begin, end),
		cmocka_unit_test_setup_teardown(a_reader_waits, begin, end),
		cmocka_unit_test_setup_teardown(a_lost_connection_is_told_once, begin, end),
		cmocka_unit_test_setup_teardown(nobody_answers, begin, end),
		cmocka_unit_test_setup_teardown(the_end_is_read_as_such, begin, end),
		cmocka_unit_test_setup_teardown(a_reader_whose_socket_is_closed, begin, end),
		cmocka_unit_test_setup_teardown(what_is_refused, begin, end),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
