/* SPDX-License-Identifier: BSD-2-Clause */
#include "abi/wc_path.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* 10.0.0.1 -> 10.0.0.2, TOS 0x0c, UDP: the header checksum is 0x26a3. */
/* clang-format off */
static const uint8_t ip4[20] = {
	0x45, 0x0c, 0x00, 0x3c, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x26, 0xa3,
	10, 0, 0, 1, 10, 0, 0, 2,
};
/* clang-format on */

static void fill_ip6(uint8_t grh[40])
{
	memset(grh, 0, 40);
	grh[0] = 0x61; /* class 0x12, flow label 0x34567 */
	grh[1] = 0x23;
	grh[2] = 0x45;
	grh[3] = 0x67;
	memset(grh + 8, 0xaa, 16);
	memset(grh + 24, 0xbb, 16);
}

static void reads_ip6(void **state)
{
	uint8_t grh[40];
	struct wc_path from;

	(void)state;
	fill_ip6(grh);
	assert_int_equal(wc_path_parse((const void *)grh, &from), 0);
	assert_memory_equal(from.sgid.raw, grh + 8, 16);
	assert_memory_equal(from.dgid.raw, grh + 24, 16);
	assert_int_equal(from.tclass, 0x12);
	assert_int_equal(from.flow_label, 0x34567);
	assert_false(from.v1);
	grh[6] = 0x1b;
	assert_int_equal(wc_path_parse((const void *)grh, &from), 0);
	assert_true(from.v1);
}

static void reads_ip4_after_junk(void **state)
{
	static const uint8_t src[16] = { [10] = 255, 255, 10, 0, 0, 1 };
	static const uint8_t dst[16] = { [10] = 255, 255, 10, 0, 0, 2 };
	uint8_t grh[40];
	struct wc_path from;

	(void)state;
	memset(grh, 0x66, 20); /* bytes that look like an IPv6 header */
	memcpy(grh + 20, ip4, 20);
	assert_int_equal(wc_path_parse((const void *)grh, &from), 0);
	assert_memory_equal(from.sgid.raw, src, 16);
	assert_memory_equal(from.dgid.raw, dst, 16);
	assert_int_equal(from.tclass, 0x0c);
	assert_int_equal(from.flow_label, 0);
}

/* An IPv6 source that begins with 0x45 at byte 20 is not taken for an IPv4 header. */
static void wants_the_checksum(void **state)
{
	uint8_t grh[40];
	struct wc_path from;

	(void)state;
	fill_ip6(grh);
	memcpy(grh + 20, ip4, 20);
	grh[39]++;
	assert_int_equal(wc_path_parse((const void *)grh, &from), 0);
	assert_int_equal(from.tclass, 0x12);
	grh[0] = 0;
	assert_int_equal(wc_path_parse((const void *)grh, &from), -EPROTONOSUPPORT);
}

static void finds_macs(void **state)
{
	static const struct {
		uint8_t gid[16];
		int rc;
		uint8_t mac[6];
	} row[] = {
		{ { 0xff, 0x02, [13] = 1, 2, 3 }, 0, { 0x33, 0x33, 0, 1, 2, 3 } },
		{ { [10] = 255, 255, 239, 129, 2, 3 }, 0, { 1, 0, 0x5e, 1, 2, 3 } },
		{ { 0xfe, 0x80, [8] = 0x52, 0x54, 0, 255, 0xfe, 7, 8, 9 },
		  0,
		  { 0x50, 0x54, 0, 7, 8, 9 } },
		{ { [10] = 255, 255, 10, 0, 0, 1 }, -EOPNOTSUPP, { 0 } },
		{ { 0xfe, 0x80, [15] = 1 }, -EOPNOTSUPP, { 0 } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		union ibv_gid gid;
		uint8_t mac[6] = { 0 };

		memcpy(gid.raw, row[i].gid, 16);
		assert_int_equal(wc_path_mac(&gid, mac), row[i].rc);
		assert_memory_equal(mac, row[i].mac, 6);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_ip6),
		cmocka_unit_test(reads_ip4_after_junk),
		cmocka_unit_test(wants_the_checksum),
		cmocka_unit_test(finds_macs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
