/* SPDX-License-Identifier: BSD-2-Clause */
/* Data, direct placement, TCP_INFO and keepalives. */
#include "rsocket/streamsock.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "rsocket/fix.h"
#include "rsocket/os.h"
#include "rsocket/rsocket.h"
#include "rsocket/streamep.h"

/* --- sending and receiving ----------------------------------------------- */

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

/* --- direct placement ---------------------------------------------------- */

enum { SIZE = 10000, MAPS = 2 };

static uint8_t memory[SIZE], data[SIZE];

static int begin_mapped(void **state)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(int);
	int listener, maps = MAPS;

	fix_begin(state);
	memset(memory, 0, SIZE);
	for (int i = 0; i < SIZE; i++)
		data[i] = (uint8_t)(i * 3 + 1);
	listener = fix_listen(&a, 1);
	assert_int_equal(rsocket_set_option(listener, SOL_RDMA, RDMA_IOMAPSIZE, &maps,
					    len),
			 0);
	ends[0] = rsocket_open(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(rsocket_set_option(ends[0], SOL_RDMA, RDMA_IOMAPSIZE, &maps,
					    len),
			 0);
	assert_int_equal(rsocket_connect(ends[0], (struct sockaddr *)&a, sizeof(a)), 0);
	ends[1] = rsocket_accept(listener, NULL, NULL);
	assert_int_equal(rsocket_close(listener), 0);
	return 0;
}

static int map(void *buf, size_t len, off_t offset, off_t *at)
{
	int rc = rsocket_map(ends[1], buf, len, PROT_WRITE, offset, at);

	if (!fix.hold)
		fix_deliver(); /* the peer's entry arrives */
	return rc;
}

static ssize_t write_at(const void *buf, size_t len, uint64_t offset)
{
	return rsocket_write_at(ends[0], buf, len, offset, MSG_DONTWAIT);
}

static void a_buffer_is_written_to_by_offset(void **state)
{
	off_t at;

	(void)state;
	assert_int_equal(map(memory, SIZE, 4096, &at), 0);
	assert_int_equal(at, 4096);
	assert_int_equal(write_at(data, 100, 4096 + 50), 100);
	assert_int_equal(write_at(data, SIZE - 1000, 4096 + 1000), SIZE - 1000);
	fix_deliver();
	assert_memory_equal(memory + 50, data, 100);
	assert_memory_equal(memory + 1000, data, SIZE - 1000);
	assert_int_equal(rsocket_unmap(ends[1], memory, SIZE), 0);
	fix_deliver();
	assert_int_equal(write_at(data, 1, 4096), -EINVAL);
}

static void an_offset_is_chosen(void **state)
{
	off_t first, second;

	(void)state;
	assert_int_equal(map(memory, 5000, -1, &first), 0);
	assert_int_equal(map(memory + 5000, 5000, -1, &second), 0);
	assert_int_equal(first, 0);
	assert_int_equal(second, 8192);
	/* The peer has two entries. */
	assert_int_equal(map(memory, 1, -1, &first), -ENOBUFS);
	assert_int_equal(rsocket_unmap(ends[1], memory, 5000), 0);
	assert_int_equal(map(memory, 1, -1, &first), 0);
}

static void what_is_not_mapped(void **state)
{
	off_t at;

	(void)state;
	assert_int_equal(write_at(data, 1, 0), -EINVAL);
	assert_int_equal(map(memory, 100, 0, &at), 0);
	assert_int_equal(write_at(data, 100, 50), 50); /* up to the end of the map */
	assert_int_equal(write_at(data, 1, 100), -EINVAL);
	assert_int_equal(write_at(data, 1, UINT64_MAX), -EINVAL);
	assert_int_equal(rsocket_unmap(ends[1], memory, 99), -EINVAL);
	assert_int_equal(rsocket_unmap(ends[1], memory + 1, 100), -EINVAL);
}

static void hostile_numbers(void **state)
{
	off_t at;

	(void)state;
	assert_int_equal(map(NULL, 1, 0, &at), -EINVAL);
	assert_int_equal(map(memory, 0, 0, &at), -EINVAL);
	assert_int_equal(map(memory, SIZE_MAX, 0, &at), -EINVAL);
	assert_int_equal(map(memory, 1, -2, &at), -EINVAL);
	assert_int_equal(rsocket_map(ends[1], memory, 1, PROT_READ, 0, &at), -EINVAL);
	assert_int_equal(rsocket_map(ends[1], memory, 1, PROT_NONE, 0, &at), 0);
	/* This map is only for the program itself. */
	assert_int_equal(write_at(data, 1, 0), -EINVAL);
}

static void nothing_is_left_of_a_failure(void **state)
{
	int mrs = fix.mrs;
	off_t at;

	(void)state;
	fix_fail(1);
	assert_int_equal(map(memory, 100, 0, &at), -ENOMEM);
	assert_int_equal(fix.mrs, mrs);
	assert_int_equal(map(memory, 100, 0, &at), 0);
	assert_int_equal(map(memory + 100, 100, 100, &at), 0); /* both entries are free */
}

/* The send buffer is full, and nothing arrives. */
static void no_room(void **state)
{
	ssize_t n;
	off_t at;

	(void)state;
	assert_int_equal(map(memory, SIZE, 0, &at), 0);
	fix_deliver();
	fix.hold = true;
	while ((n = write_at(data, SIZE, 0)) > 0)
		;
	assert_int_equal(n, -EAGAIN);
	fix.hold = false;
	assert_int_equal(rsocket_write_at(ends[0], data, SIZE, 0, 0), SIZE);
	fix_deliver();
	assert_memory_equal(memory, data, SIZE);
}

/* All four controls are in use: the call waits for one. */
static void it_waits_to_tell_the_peer(void **state)
{
	struct rsock_stream *st = fix_stream(ends[1]);
	struct rs_write w;
	off_t at;

	(void)state;
	rsock_conn_progress(st);
	fix.hold = true;
	while (rs_may_control(&st->ep.s)) {
		rs_send_keepalive(&st->ep.s, &w);
		rsock_conn_post(st, &w, NULL);
	}
	fix_when_asleep(fix_deliver);
	fix.slept = 0;
	assert_int_equal(map(memory, 1, 0, &at), 0);
	assert_int_equal(fix.slept, 1);
	fix.hold = false;
}

static void unmap_again(void)
{
	assert_int_equal(rsocket_unmap(ends[1], memory, SIZE), -EINVAL);
	fix_deliver();
}

/* While one thread waits to tell the peer, another unmaps the same buffer. */
static void it_is_unmapped_once(void **state)
{
	struct rsock_stream *st = fix_stream(ends[1]);
	struct rs_write w;
	off_t at;

	(void)state;
	assert_int_equal(map(memory, SIZE, 0, &at), 0);
	rsock_conn_progress(st);
	fix.hold = true;
	while (rs_may_control(&st->ep.s)) {
		rs_send_keepalive(&st->ep.s, &w);
		rsock_conn_post(st, &w, NULL);
	}
	fix_when_asleep(unmap_again);
	assert_int_equal(rsocket_unmap(ends[1], memory, SIZE), 0);
	fix.hold = false;
}

static void after_the_end(void **state)
{
	off_t at;

	(void)state;
	assert_int_equal(map(memory, SIZE, 0, &at), 0);
	fix_lose(IBV_WC_RETRY_EXC_ERR);
	/* The peer does not know of the unmap yet. */
	assert_int_equal(write_at(data, 1, 0), 1);
	assert_int_equal(fix_receive(ends[0], data, 1, 0), -ECONNRESET);
	assert_int_equal(write_at(data, 1, 0), -EPIPE);
	assert_int_equal(rsocket_map(ends[0], memory, 1, PROT_WRITE, 0, &at), -ENOTCONN);
}

/* --- options and keepalives ---------------------------------------------- */

static int begin_idle(void **state)
{
	fix_begin(state);
	fix_pair(ends);
	rsock_conn_progress(fix_stream(ends[0]));
	rsock_conn_progress(fix_stream(ends[1]));
	return 0;
}

static int set(int fd, int level, int name, int v)
{
	return rsocket_set_option(fd, level, name, &v, sizeof(v));
}

static uint8_t tcp_state(int fd)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	memset(&info, 0xee, sizeof(info));
	assert_int_equal(rsocket_get_option(fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	assert_int_equal(len, sizeof(info));
	return info.tcpi_state;
}

static void what_tcp_info_says(void **state)
{
	struct sockaddr_in a;
	int fd = fix_listen(&a, 1), idle = rsocket_open(AF_INET, SOCK_STREAM, 0);

	(void)state;
	assert_int_equal(tcp_state(fd), TCP_LISTEN);
	assert_int_equal(tcp_state(idle), TCP_CLOSE);
	assert_int_equal(tcp_state(ends[0]), TCP_ESTABLISHED);
	assert_int_equal(rsocket_shutdown(ends[0], SHUT_WR), 0);
	assert_int_equal(tcp_state(ends[0]), TCP_FIN_WAIT2);
	assert_int_equal(tcp_state(ends[1]), TCP_CLOSE_WAIT);
	assert_int_equal(rsocket_shutdown(ends[1], SHUT_WR), 0);
	assert_int_equal(tcp_state(ends[0]), TCP_CLOSE);
	fix.deaf = true;
	fix_nonblock(idle, true);
	a.sin_port = htons(7);
	rsocket_connect(idle, (struct sockaddr *)&a, sizeof(a));
	assert_int_equal(tcp_state(idle), TCP_SYN_SENT);
	assert_int_equal(rsocket_close(fd), 0);
	assert_int_equal(rsocket_close(idle), 0);
}

static void a_short_tcp_info(void **state)
{
	uint8_t v[2] = { 0, 0xee };
	socklen_t len = 1;

	(void)state;
	assert_int_equal(rsocket_get_option(ends[0], IPPROTO_TCP, TCP_INFO, v, &len), 0);
	assert_int_equal(len, 1);
	assert_int_equal(v[0], TCP_ESTABLISHED);
	assert_int_equal(v[1], 0xee);
}

/* A keepalive finds a lost peer though no program reads or writes. */
static void a_keepalive_finds_a_lost_peer(void **state)
{
	int v = 0;
	socklen_t len = sizeof(v);

	(void)state;
	assert_int_equal(set(ends[0], IPPROTO_TCP, TCP_KEEPIDLE, 5), 0);
	assert_int_equal(set(ends[0], SOL_SOCKET, SO_KEEPALIVE, 1), 0);
	assert_int_equal(rsock_sleep(NULL, 0, 20 * RSOCK_S), 0);
	assert_int_equal(fix_sock(ends[0])->state, RSOCK_UP);
	fix.lost = IBV_WC_RETRY_EXC_ERR;
	assert_int_equal(rsock_sleep(NULL, 0, 8 * RSOCK_S), 0);
	assert_int_equal(fix_sock(ends[0])->state, RSOCK_DOWN);
	assert_int_equal(fix_poll(ends[0], POLLIN), POLLIN | POLLERR | POLLHUP);
	assert_int_equal(rsocket_get_option(ends[0], SOL_SOCKET, SO_ERROR, &v, &len), 0);
	assert_int_equal(v, ETIMEDOUT);
}

/* A keepalive is sent at its time, and takes none of the peer's receives. */
static void when_a_keepalive_is_sent(void **state)
{
	struct rsock_stream *st = fix_stream(ends[0]);
	uint64_t first;

	(void)state;
	assert_int_equal(set(ends[0], IPPROTO_TCP, TCP_KEEPIDLE, 3), 0);
	assert_int_equal(set(ends[0], SOL_SOCKET, SO_KEEPALIVE, 1), 0);
	first = st->kept;
	assert_int_equal(rsock_sleep(NULL, 0, 2500 * RSOCK_MS), 0);
	assert_int_equal(st->kept, first);
	assert_int_equal(rsock_sleep(NULL, 0, 2 * RSOCK_S), 0);
	assert_in_range(st->kept - first, 3 * RSOCK_S, 4100 * RSOCK_MS);
	assert_int_equal(set(ends[0], SOL_SOCKET, SO_KEEPALIVE, 0), 0);
	first = st->kept;
	assert_int_equal(rsock_sleep(NULL, 0, 10 * RSOCK_S), 0);
	assert_int_equal(st->kept, first);
	assert_int_equal(fix_poll(ends[1], POLLIN), 0);
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
		cmocka_unit_test_setup_teardown(a_buffer_is_written_to_by_offset, begin_mapped, end),
		cmocka_unit_test_setup_teardown(an_offset_is_chosen, begin_mapped, end),
		cmocka_unit_test_setup_teardown(what_is_not_mapped, begin_mapped, end),
		cmocka_unit_test_setup_teardown(hostile_numbers, begin_mapped, end),
		cmocka_unit_test_setup_teardown(nothing_is_left_of_a_failure, begin_mapped, end),
		cmocka_unit_test_setup_teardown(no_room, begin_mapped, end),
		cmocka_unit_test_setup_teardown(it_waits_to_tell_the_peer, begin_mapped, end),
		cmocka_unit_test_setup_teardown(it_is_unmapped_once, begin_mapped, end),
		cmocka_unit_test_setup_teardown(after_the_end, begin_mapped, end),
		cmocka_unit_test_setup_teardown(what_tcp_info_says, begin_idle, end),
		cmocka_unit_test_setup_teardown(a_short_tcp_info, begin_idle, end),
		cmocka_unit_test_setup_teardown(a_keepalive_finds_a_lost_peer, begin_idle, end),
		cmocka_unit_test_setup_teardown(when_a_keepalive_is_sent, begin_idle, end),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
