/* SPDX-License-Identifier: BSD-2-Clause */
/* Iomap entries that the peer writes, and WRITEs to them. */
#include "rsocket/stream_fix.h"

static void iomaps(void **state)
{
	struct rs_iomap map = { 4096, { 0x70000, 33, 500 } };
	struct rs_write w;

	(void)state;
	rs_send_iomap(&s, 4, &map, &w);
	assert_int_equal(w.addr, 0x10000 + 3 * 16 + 4 * 24);
	assert_int_equal(w.key, 7);
	assert_int_equal(w.imm, 0xc0000004);
	assert_memory_equal(w.image, &map, sizeof(map));

	assert_false(rs_send_direct(&s, 4096, 10, &w));
	shared.maps[2] = map;
	assert_false(rs_send_direct(&s, 4095, 10, &w));
	assert_false(rs_send_direct(&s, 4096 + 500, 10, &w));
	assert_true(rs_send_direct(&s, 4096 + 100, 1000, &w));
	assert_int_equal(w.len, 400);
	assert_int_equal(w.addr, 0x70000 + 100);
	assert_int_equal(w.key, 33);
	assert_false(w.has_imm);
	assert_int_equal(s.sent, 0); /* takes no credit */
	shared.maps[2].sge.length = UINT32_MAX;
	shared.maps[2].offset = UINT64_MAX - 10;
	assert_true(rs_send_direct(&s, UINT64_MAX, 1, &w));
	assert_int_equal(w.len, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(iomaps, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
