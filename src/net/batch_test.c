/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "net/batch.h"
#include "net/ip_addr.h"
#include "net/link.h"

static struct batch b;
static struct link wire;

static const uint8_t v4[16] = { [10] = 0xff, [11] = 0xff, 10, 0, 0, 1 };

static struct dgram *add(const uint8_t ip[16], uint32_t len)
{
	struct dgram *d = batch_next(&b);

	memcpy(ip_of(d)->from.ip, ip, 16);
	memcpy(ip_of(d)->to.ip, ip, 16);
	ip_of(d)->to.ip[15]++;
	ip_of(d)->to.port = 4791;
	ip_of(d)->ttl = 64;
	d->link = &wire;
	d->len = len;
	d->iovcnt = 2;
	return d;
}

static struct dgram *put(const uint8_t ip[16], uint32_t len)
{
	struct dgram *d = add(ip, len);

	batch_commit(&b, d);
	return d;
}

static void start(unsigned run_max)
{
	memset(&b, 0xa5, sizeof(b));
	batch_reset(&b);
	wire.run_max = run_max;
}

static void t_run(void **state)
{
	(void)state;
	start(64);
	for (int i = 0; i < 5; i++) {
		struct dgram *d = put(v4, 1040);

		assert_int_equal(d->seg, i);
		assert_ptr_equal(d->iov, &b.iov[2 * i]);
	}
	assert_int_equal(b.n, 5);
	assert_int_equal(b.iov_used, 10);
	assert_int_equal(put(v4, 40)->seg, 5); /* a shorter datagram ends the run */
	assert_int_equal(put(v4, 40)->seg, 0);
	assert_int_equal(put(v4, 41)->seg, 0); /* longer than the run's first datagram */
	assert_int_equal(put(v4, 41)->seg, 1);
}

static void t_run_max(void **state)
{
	(void)state;
	start(3);
	for (int i = 0; i < 9; i++)
		assert_int_equal(put(v4, 100)->seg, i % 3);
	start(1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(put(v4, 100)->seg, 0);
}

/* A buffer that UDP_SEGMENT cuts holds less than 64 KiB. */
static void t_run_bytes(void **state)
{
	uint32_t total = 0;

	(void)state;
	start(64);
	for (int i = 0; i < 40; i++) {
		struct dgram *d = put(v4, 4144);

		total = d->seg ? total + d->len : d->len;
		assert_true(total <= 65000);
		assert_int_equal(d->seg, i % 15);
	}
}

/* A datagram like the last one has the place that it would have anyway. */
static void t_again(void **state)
{
	(void)state;
	for (unsigned run_max = 1; run_max <= 64; run_max += 7)
		for (uint32_t len = 100; len <= 4144; len += 1348) {
			uint16_t seg[BATCH_MAX];

			start(run_max);
			put(v4, len + 16);
			for (int i = 1; i < BATCH_MAX; i++)
				seg[i] = put(v4, len)->seg;
			start(run_max);
			put(v4, len + 16);
			put(v4, len);
			for (int i = 2; i < BATCH_MAX; i++) {
				struct dgram *d = batch_again(&b);

				assert_ptr_equal(d->iov, &b.iov[2 * i]);
				assert_true(addr_same(&d->addr, &d[-1].addr));
				batch_commit_again(&b, d);
				assert_int_equal(d->seg, seg[i]);
				assert_int_equal(d->len, len);
			}
			assert_int_equal(b.iov_used, 2 * BATCH_MAX);
		}
}

static void t_what_splits(void **state)
{
	(void)state;
	for (int what = 0; what < 10; what++) {
		struct link other = { .run_max = 64 };
		struct dgram *d;

		start(64);
		put(v4, 100);
		d = add(v4, 100);
		switch (what) {
		case 0:
			ip_of(d)->to.ip[15]++;
			break;
		case 1:
			ip_of(d)->from.ip[15]++;
			break;
		case 2:
			ip_of(d)->to.port++;
			break;
		case 3:
			ip_of(d)->from.port++;
			break;
		case 4:
			ip_of(d)->ifindex++;
			break;
		case 5:
			ip_of(d)->tclass++;
			break;
		case 6:
			ip_of(d)->ttl++;
			break;
		case 7:
			d->to_slot++;
			break;
		case 8:
			d->link = &other;
			break;
		}
		batch_commit(&b, d);
		assert_int_equal(d->seg, what == 9);
	}
}

static void t_room(void **state)
{
	(void)state;
	start(64);
	assert_true(batch_has_room(&b, DGRAM_IOV_MAX, BATCH_BOUNCE));
	assert_false(batch_has_room(&b, 1, BATCH_BOUNCE + 1));
	assert_false(batch_has_room(&b, BATCH_IOV + 1, 0));
	b.bounce_used = BATCH_BOUNCE - 10;
	assert_true(batch_has_room(&b, 1, 10));
	assert_false(batch_has_room(&b, 1, 11));
	b.iov_used = BATCH_IOV - 2;
	assert_true(batch_has_room(&b, 2, 0));
	assert_false(batch_has_room(&b, 3, 0));
	start(64);
	for (int i = 0; i < BATCH_MAX; i++) {
		assert_true(batch_has_room(&b, 2, 0));
		put(v4, 100);
	}
	assert_false(batch_has_room(&b, 0, 0));
}

static void t_full(void **state)
{
	(void)state;
	start(64);
	for (unsigned i = 0; i < 62; i++) {
		if (i)
			assert_false(batch_run_is_full(&b));
		put(v4, 1040);
	}
	assert_true(batch_run_is_full(&b)); /* 63 would be more than 65,000 bytes */
	put(v4, 1040);
	assert_false(batch_run_is_full(&b));
	start(2);
	put(v4, 24);
	put(v4, 24);
	assert_true(batch_run_is_full(&b));
	start(1);
	put(v4, 24);
	assert_false(batch_run_is_full(&b)); /* there are no runs */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_run),	 cmocka_unit_test(t_full),
		cmocka_unit_test(t_run_max),	 cmocka_unit_test(t_run_bytes),
		cmocka_unit_test(t_what_splits), cmocka_unit_test(t_room),
		cmocka_unit_test(t_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
