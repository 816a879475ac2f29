/* SPDX-License-Identifier: BSD-2-Clause */
/* The header and both CRCs, checked with packets of real hardware (Wireshark's sample
 * capture of InfiniBand). */
#include "wire/lrh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/icrc.h"
#include "wire/lrh_testing.h"

/* clang-format off */
/* UD, with immediate */
static const uint8_t ud[] = {
	0x00, 0x02, 0x00, 0x04, 0x00, 0x17, 0x00, 0x01, 0x64, 0x40, 0xff, 0xff,
	0x00, 0x00, 0x04, 0x05, 0x00, 0x0d, 0x43, 0xbc, 0x00, 0x00, 0x0b, 0x1b,
	0x00, 0x00, 0x04, 0x04, 0x08, 0x06, 0x00, 0x00, 0x00, 0x20, 0x08, 0x00,
	0x14, 0x04, 0x00, 0x02, 0x80, 0x00, 0x04, 0x04, 0xfe, 0x80, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xc9, 0x02, 0x00, 0x20, 0xb4, 0xdd,
	0x0a, 0x00, 0x00, 0x3a, 0x80, 0x00, 0x04, 0x05, 0xfe, 0x80, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xc9, 0x02, 0x00, 0x24, 0xf6, 0x36,
	0x0a, 0x00, 0x01, 0x22, 0x06, 0xe8, 0x7b, 0xdb, 0x68, 0x5c,
};
/* clang-format on */

static const struct {
	const uint8_t *pkt;
	size_t len; /* to the VCRC */
} packets[] = {
	{ ack, sizeof(ack) },
	{ ud, sizeof(ud) },
	{ group, sizeof(group) },
};
enum { PACKETS = sizeof(packets) / sizeof(packets[0]) };

static void t_crcs(void **state)
{
	(void)state;
	for (int i = 0; i < PACKETS; i++) {
		const uint8_t *p = packets[i].pkt;
		size_t n = packets[i].len - VCRC_LEN;

		assert_int_equal(lrh_icrc(p, n - ICRC_LEN), icrc_get(p + n - ICRC_LEN));
		assert_int_equal(lrh_vcrc(p, n), p[n] | p[n + 1] << 8);
	}
}

/* Bits that may change on the way do not change the ICRC; all others do. */
static void t_masked(void **state)
{
	static const uint8_t local[] = { 0, 8 + 4 },
			     global[] = { 8, 8 + 1, 8 + 3, 8 + 7, 0, 3, 7, 48 + 4 };
	static const uint8_t masks[] = { 0xf0, 0xff },
			     global_masks[] = { 0x0f, 0xff, 0xff, 0xff,
						0xff, 0xff, 0xff, 0xff };
	uint8_t copy[256];

	(void)state;
	for (int i = 0; i < PACKETS; i++) {
		bool grh = packets[i].pkt == group;
		size_t n = packets[i].len - VCRC_LEN - ICRC_LEN;
		uint32_t crc = lrh_icrc(packets[i].pkt, n);

		memcpy(copy, packets[i].pkt, n);
		for (unsigned k = 0; k < (grh ? sizeof(global) : sizeof(local)); k++) {
			uint8_t at = grh ? global[k] : local[k];

			copy[at] ^= grh ? global_masks[k] : masks[k];
			/* The next header bits are never masked */
			copy[1] = (uint8_t)((copy[1] & ~3) | (packets[i].pkt[1] & 3));
			assert_int_equal(lrh_icrc(copy, n), crc);
		}
		copy[n - 1] ^= 1;
		assert_int_not_equal(lrh_icrc(copy, n), crc);
		copy[n - 1] ^= 1;
		copy[grh ? 8 : 0] ^= grh ? 0x10 : 0x01;
		assert_int_not_equal(lrh_icrc(copy, n), crc);
	}
}

static void t_build(void **state)
{
	struct lrh h;

	(void)state;
	for (int i = 0; i < PACKETS; i++) {
		const struct lrh *p = (const void *)packets[i].pkt;

		lrh_build(&h, &(struct lrh_fields){
				      .vl = p->vl_lver >> 4,
				      .sl = p->sl_lnh >> 4,
				      .grh = packets[i].pkt == group,
				      .dlid = get_be16(p->dlid),
				      .slid = get_be16(p->slid),
				      .len = packets[i].len - VCRC_LEN,
			      });
		assert_memory_equal(&h, p, sizeof(h));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_crcs),
		cmocka_unit_test(t_masked),
		cmocka_unit_test(t_build),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
