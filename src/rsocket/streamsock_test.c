/* SPDX-License-Identifier: BSD-2-Clause */
/* Keepalives and TCP_INFO. */
#include "rsocket/streamsock.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "rsocket/conn.h"
#include "rsocket/fix.h"
#include "rsocket/os.h"
#include "rsocket/rsocket.h"

static int ends[2];

static int begin(void **state)
{
	fix_begin(state);
	fix_pair(ends);
	rsock_conn_progress(fix_stream(ends[0]));
	rsock_conn_progress(fix_stream(ends[1]));
	return 0;
}

static int end(void **state)
{
	assert_int_equal(rsocket_close(ends[0]), 0);
	assert_int_equal(rsocket_close(ends[1]), 0);
	return fix_end(state);
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
		cmocka_unit_test_setup_teardown(what_tcp_info_says, begin, end),
		cmocka_unit_test_setup_teardown(a_short_tcp_info, begin, end),
		cmocka_unit_test_setup_teardown(a_keepalive_finds_a_lost_peer, begin, end),
		cmocka_unit_test_setup_teardown(when_a_keepalive_is_sent, begin, end),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
