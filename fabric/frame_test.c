/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of data as captures show them: packets that hardware sent (Wireshark's sample
 * capture of InfiniBand) are reproduced byte for byte, with both CRCs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/fabric.h"
#include "wire/lrh_testing.h"

/* clang-format off */
/* RC SEND */
static const uint8_t rc_send[] = {
	0x00, 0x02, 0x00, 0x01, 0x00, 0x1c, 0x00, 0x04, 0x04, 0x40, 0xff, 0xff,
	0x00, 0xfc, 0x04, 0x07, 0x80, 0xd4, 0x0a, 0x55, 0x08, 0x00, 0x00, 0x00,
	0x45, 0x00, 0x00, 0x54, 0x00, 0x00, 0x40, 0x00, 0x40, 0x01, 0x25, 0x4e,
	0x0a, 0x00, 0x01, 0x22, 0x0a, 0x00, 0x00, 0x3a, 0x08, 0x00, 0x85, 0x76,
	0x17, 0x02, 0x00, 0x01, 0xf7, 0x41, 0x2b, 0x48, 0x00, 0x00, 0x00, 0x00,
	0x72, 0x29, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x11, 0x12, 0x13,
	0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f,
	0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b,
	0x2c, 0x2d, 0x2e, 0x2f, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37,
	0x0a, 0xcc, 0xa5, 0xdf, 0x24, 0xa8,
};
/* clang-format on */

enum { LRH = 8, GRH = 40, VCRC = 2, BTH = 12 };

static uint16_t be(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void same(const uint8_t *hw, size_t len)
{
	bool grh = (hw[1] & 3) == 3;
	const uint8_t *bth = hw + LRH + (grh ? GRH : 0);
	struct fabric_data d = {
		.bytes = bth,
		.len = (uint32_t)(len - VCRC - (size_t)(bth - hw)),
	};
	struct mad_pkt pkt = {
		.data = &d,
		.slid = be(hw + 6),
		.dlid = be(hw + 2),
		.sl = hw[1] >> 4,
		.grh = grh,
	};
	uint8_t *got = malloc(FABRIC_FRAME);

	assert_non_null(got);
	memcpy(d.bth, bth, BTH);
	if (grh) {
		pkt.hop_limit = hw[15];
		memcpy(pkt.sgid, hw + 16, 16);
		memcpy(pkt.dgid, hw + 32, 16);
	}
	assert_int_equal(fabric_frame(got, hw[0] >> 4, &pkt), len);
	assert_memory_equal(got, hw, len);
	free(got);
}

static void t_local(void **state)
{
	(void)state;
	same(ack, sizeof(ack));
	same(rc_send, sizeof(rc_send));
}

static void t_global(void **state)
{
	(void)state;
	same(group, sizeof(group));
}

/* A sender that changes its packet afterwards does not change the capture: its BTH is
 * the one by which the fabric forwarded the packet. */
static void t_changed(void **state)
{
	struct fabric_data d = { .bytes = (const uint8_t[24]){ 1, 2, 3 }, .len = 24 };
	struct mad_pkt pkt = { .data = &d, .slid = 1, .dlid = 2 };
	uint8_t *got = malloc(FABRIC_FRAME);

	(void)state;
	assert_non_null(got);
	memset(d.bth, 0xa5, sizeof(d.bth));
	assert_int_equal(fabric_frame(got, 0, &pkt), LRH + 24 + VCRC);
	assert_memory_equal(got + LRH, d.bth, BTH);
	free(got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_local),
		cmocka_unit_test(t_global),
		cmocka_unit_test(t_changed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
