/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "driver/inbox.h"
#include "net/ip_addr.h"

static struct inbox *box;

static int setup(void **state)
{
	(void)state;
	return inbox_open(&box);
}

static int teardown(void **state)
{
	(void)state;
	inbox_close(box);
	return 0;
}

static bool put(uint32_t k, uint32_t len)
{
	static uint8_t data[65536];
	struct iovec iov[2] = { { data, 4 }, { data + 4, len - 4 } };
	struct dgram d = { .len = len, .iov = iov, .iovcnt = 2, .ip_id = 5 };
	bool ok;

	memcpy(data, &k, 4);
	memset(data + 4, (int)k, len - 4);
	ip_of(&d)->from.port = 77;
	ok = inbox_put(box, &d);
	memset(data, 0xee, len); /* the inbox has made a copy */
	return ok;
}

static void check(const struct dgram *d, uint32_t k, uint32_t len)
{
	const uint8_t *b = d->iov[0].iov_base;
	uint32_t got;

	memcpy(&got, b, 4);
	assert_int_equal(got, k);
	assert_int_equal(d->len, len);
	assert_int_equal(d->iovcnt, 1);
	assert_int_equal(d->iov[0].iov_len, len);
	assert_int_equal(ip_of(d)->from.port, 77);
	assert_int_equal(d->ip_id, 5);
	for (uint32_t i = 4; i < len; i++)
		assert_int_equal(b[i], (uint8_t)k);
}

static void test_in_order(void **state)
{
	struct dgram v[4];
	uint32_t in = 0, out = 0;

	(void)state;
	assert_true(inbox_empty(box));
	assert_int_equal(inbox_take(box, v, 4), 0);
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < round % 5; i++, in++)
			assert_true(put(in, 100 + in % 50));
		for (unsigned n = inbox_take(box, v, 3), i = 0; i < n; i++, out++)
			check(&v[i], out, 100 + out % 50);
		assert_int_equal(inbox_empty(box), in == out);
	}
	while (out < in) {
		assert_int_equal(inbox_take(box, v, 1), 1);
		check(&v[0], out, 100 + out % 50);
		out++;
	}
	assert_true(inbox_empty(box));
}

/* Datagrams that were taken out stay valid until the next inbox_take(), whatever is put
 * in. */
static void test_valid_until_next_take(void **state)
{
	struct dgram v[2];

	(void)state;
	put(1, 64);
	put(2, 64);
	assert_int_equal(inbox_take(box, v, 2), 2);
	for (uint32_t i = 3; i < 100; i++)
		put(i, 64);
	check(&v[0], 1, 64);
	check(&v[1], 2, 64);
}

static void test_bounded(void **state)
{
	struct dgram v[1];
	uint32_t n = 0, m = 0;

	(void)state;
	while (put(n, 32))
		n++;
	assert_in_range(n, 100, 100000);
	while (inbox_take(box, v, 1))
		check(&v[0], m++, 32);
	assert_int_equal(m, n);
	/* The inbox is also limited by bytes. */
	for (n = 0; put(n, 65500); n++)
		;
	assert_in_range(n, 4, 64);
	for (m = 0; inbox_take(box, v, 1); m++)
		check(&v[0], m, 65500);
	assert_int_equal(m, n);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_valid_until_next_take, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounded, setup, teardown),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
