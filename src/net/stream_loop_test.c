/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/stream_loop.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static ssize_t send_some(struct stream *s, const void *p, size_t n, uint64_t now)
{
	struct iovec v[2] = { { (void *)(uintptr_t)p, n / 3 },
			      { (char *)(uintptr_t)p + n / 3, n - n / 3 } };

	return s->ops->send(s, v, 2, now);
}

static ssize_t recv_some(struct stream *s, void *p, size_t n, uint64_t now)
{
	struct iovec v[2] = { { p, n / 2 }, { (char *)p + n / 2, n - n / 2 } };

	return s->ops->recv(s, v, 2, now);
}

static void bytes_come_later_and_in_order(void **state)
{
	struct stream_loop_conf c = { .latency = 10, .depth = 8 };
	struct stream *a, *b;
	char got[8];

	(void)state;
	assert_int_equal(stream_loop_pair(&a, &b, &c), 0);
	assert_int_equal(send_some(a, "abcdef", 6, 5), 6);
	assert_int_equal(send_some(a, "ghij", 4, 7), 2);
	assert_int_equal(send_some(a, "ij", 2, 8), 0);
	assert_int_equal(b->ops->deadline(b), 15);
	assert_int_equal(recv_some(b, got, 8, 14), 0);
	assert_int_equal(recv_some(b, got, 8, 15), 6);
	assert_memory_equal(got, "abcdef", 6);
	a->ops->fin(a);
	assert_int_equal(recv_some(b, got, 1, 17), 1);
	assert_int_equal(recv_some(b, got, 8, 17), 1);
	assert_int_equal(recv_some(b, got, 8, 17), -ESHUTDOWN);
	assert_int_equal(send_some(b, "xyz", 3, 20), 3);
	b->ops->close(b);
	assert_int_equal(recv_some(a, got, 8, 30), 3);
	assert_int_equal(recv_some(a, got, 8, 30), -ESHUTDOWN);
	assert_int_equal(send_some(a, "x", 1, 30), -EPIPE);
	a->ops->close(a);
}

static void a_seed_cuts_but_loses_nothing(void **state)
{
	struct stream_loop_conf c = { .latency = 10, .jitter = 50, .depth = 100 };
	char from[3000], to[3000];

	(void)state;
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (char)(i * 7 + i / 200);
	for (c.seed = 1; c.seed < 50; c.seed++) {
		size_t sent = 0, got = 0, steps = 0;
		struct stream *a, *b;

		assert_int_equal(stream_loop_pair(&a, &b, &c), 0);
		for (uint64_t now = 0; got < sizeof(from); now += 3, steps++) {
			ssize_t n = send_some(a, from + sent, sizeof(from) - sent, now);

			assert_true(n >= 0);
			sent += (size_t)n;
			n = recv_some(b, to + got, sizeof(to) - got, now);
			assert_true(n >= 0);
			got += (size_t)n;
		}
		assert_memory_equal(from, to, sizeof(from));
		assert_true(steps > 60);
		stream_loop_break(b, ECONNRESET);
		assert_int_equal(recv_some(a, to, 1, 1), -ECONNRESET);
		assert_int_equal(send_some(b, to, 1, 1), -ECONNRESET);
		a->ops->close(a);
		b->ops->close(b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_come_later_and_in_order),
		cmocka_unit_test(a_seed_cuts_but_loses_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
