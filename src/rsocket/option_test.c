/* SPDX-License-Identifier: BSD-2-Clause */
/* Options are read back as they were set, within bounds. */
#include "rsocket/option.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct rsock_kind kind = { 0 };
static struct rsock rs;

static int begin(void **state)
{
	(void)state;
	rsock_init(&rs, &kind, AF_INET6, SOCK_STREAM);
	return 0;
}

static int end(void **state)
{
	(void)state;
	return pthread_mutex_destroy(&rs.lock);
}

static int set(int level, int name, int v)
{
	return rsock_option_set(&rs, level, name, &v, sizeof(v));
}

static int get(int level, int name)
{
	socklen_t len = sizeof(int);
	int v = -1;

	assert_int_equal(rsock_option_get(&rs, level, name, &v, &len), 0);
	assert_int_equal(len, sizeof(v));
	return v;
}

/* A value that is set, and the value that is then read. */
static const struct {
	int level, name, set, get;
} rows[] = {
	{ SOL_SOCKET, SO_REUSEADDR, 1, 1 },
	{ SOL_SOCKET, SO_KEEPALIVE, 1, 1 },
	{ SOL_SOCKET, SO_OOBINLINE, 1, 1 },
	{ SOL_SOCKET, SO_SNDBUF, 5000, 10000 },
	{ SOL_SOCKET, SO_RCVBUF, 5000, 10000 },
	{ SOL_SOCKET, SO_SNDBUF, 1, 2048 },
	{ SOL_SOCKET, SO_RCVBUF, -1, RSOCK_BUFFER_MAX * 2 },
	{ IPPROTO_TCP, TCP_NODELAY, 1, 1 },
	{ IPPROTO_TCP, TCP_KEEPIDLE, 5, 5 },
	{ IPPROTO_TCP, TCP_KEEPINTVL, 6, 6 },
	{ IPPROTO_TCP, TCP_KEEPCNT, 7, 7 },
	{ IPPROTO_TCP, TCP_MAXSEG, 7, 4096 },
	{ IPPROTO_IPV6, IPV6_V6ONLY, 1, 1 },
	{ SOL_RDMA, RDMA_SQSIZE, 100, 100 },
	{ SOL_RDMA, RDMA_RQSIZE, 1, 2 },
	{ SOL_RDMA, RDMA_RQSIZE, INT32_MAX, RSOCK_QUEUE_MAX },
	{ SOL_RDMA, RDMA_INLINE, INT32_MIN, RSOCK_INLINE_MAX },
	{ SOL_RDMA, RDMA_IOMAPSIZE, 128, 128 },
	{ SOL_RDMA, RDMA_IOMAPSIZE, 600, 512 }, /* rounded, as on the wire */
	{ SOL_RDMA, RDMA_IOMAPSIZE, INT32_MAX, RSOCK_IOMAPS_MAX },
};

static void what_is_set_is_got(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(set(rows[i].level, rows[i].name, rows[i].set), 0);
		assert_int_equal(get(rows[i].level, rows[i].name), rows[i].get);
	}
}

static void what_a_new_socket_says(void **state)
{
	(void)state;
	assert_int_equal(get(SOL_SOCKET, SO_TYPE), SOCK_STREAM);
	assert_int_equal(get(SOL_SOCKET, SO_DOMAIN), AF_INET6);
	assert_int_equal(get(SOL_SOCKET, SO_ACCEPTCONN), 0);
	assert_int_equal(get(IPPROTO_TCP, TCP_KEEPIDLE), RSOCK_KEEP_IDLE);
	assert_int_equal(get(IPPROTO_TCP, TCP_KEEPINTVL), 75);
	assert_int_equal(get(IPPROTO_TCP, TCP_KEEPCNT), 9);
	rs.state = RSOCK_LISTENING;
	assert_int_equal(get(SOL_SOCKET, SO_ACCEPTCONN), 1);
}

static void an_error_is_told_once(void **state)
{
	(void)state;
	rs.err = ECONNRESET;
	assert_int_equal(get(SOL_SOCKET, SO_ERROR), ECONNRESET);
	assert_int_equal(get(SOL_SOCKET, SO_ERROR), 0);
}

static void lingering(void **state)
{
	struct linger l = { .l_onoff = 1, .l_linger = 7 }, back;
	socklen_t len = sizeof(back);

	(void)state;
	assert_int_equal(rsock_option_set(&rs, SOL_SOCKET, SO_LINGER, &l, sizeof(l) - 1),
			 -EINVAL);
	assert_int_equal(rsock_option_set(&rs, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	assert_int_equal(rsock_option_get(&rs, SOL_SOCKET, SO_LINGER, &back, &len), 0);
	assert_memory_equal(&l, &back, sizeof(l));
	len = 1;
	assert_int_equal(rsock_option_get(&rs, SOL_SOCKET, SO_LINGER, &back, &len),
			 -EINVAL);
}

static void with_buffers_sizes_are_fixed(void **state)
{
	int was = get(SOL_SOCKET, SO_SNDBUF);

	(void)state;
	rs.sizes_fixed = true;
	assert_int_equal(set(SOL_SOCKET, SO_SNDBUF, 5000), 0);
	assert_int_equal(get(SOL_SOCKET, SO_SNDBUF), was);
	assert_int_equal(set(SOL_RDMA, RDMA_SQSIZE, 5), -EINVAL);
}

static void what_is_refused(void **state)
{
	socklen_t len = 3;
	int v = 1;

	(void)state;
	assert_int_equal(rsock_option_set(&rs, SOL_SOCKET, SO_KEEPALIVE, &v, 3), -EINVAL);
	assert_int_equal(rsock_option_set(&rs, SOL_SOCKET, SO_KEEPALIVE, NULL, 4),
			 -EINVAL);
	assert_int_equal(rsock_option_get(&rs, SOL_SOCKET, SO_KEEPALIVE, &v, &len),
			 -EINVAL);
	assert_int_equal(set(SOL_SOCKET, SO_RCVTIMEO, 1), -ENOPROTOOPT);
	assert_int_equal(set(IPPROTO_TCP, 999, 1), -ENOPROTOOPT);
	assert_int_equal(set(999, 1, 1), -ENOPROTOOPT);
	assert_int_equal(set(IPPROTO_TCP, TCP_KEEPIDLE, 0), -EINVAL);
	assert_int_equal(set(IPPROTO_TCP, TCP_KEEPIDLE, 32768), -EINVAL);
	assert_int_equal(set(SOL_RDMA, RDMA_ROUTE, 1), -EOPNOTSUPP);
	rs.state = RSOCK_BOUND;
	assert_int_equal(set(IPPROTO_IPV6, IPV6_V6ONLY, 1), -EINVAL);
	rs.domain = AF_INET;
	assert_int_equal(set(IPPROTO_IPV6, IPV6_V6ONLY, 1), -ENOPROTOOPT);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_set_is_got, begin, end),
		cmocka_unit_test_setup_teardown(what_a_new_socket_says, begin, end),
		cmocka_unit_test_setup_teardown(an_error_is_told_once, begin, end),
		cmocka_unit_test_setup_teardown(lingering, begin, end),
		cmocka_unit_test_setup_teardown(with_buffers_sizes_are_fixed, begin, end),
		cmocka_unit_test_setup_teardown(what_is_refused, begin, end),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
