/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* The private data of a REQ of rstream on Linux (rxe-rsocket-write-imm.pcap). */
/* clang-format off */
static const uint8_t captured[RS_CONN_SIZE] = {
	0x01, 0x02, 0x01, 0x80, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x7f, 0x18, 0x50, 0x00, 0x30, 0x00,
	0x00, 0x00, 0x1c, 0xb6, 0x00, 0x00, 0x00, 0x02,
	0x00, 0x00, 0x7f, 0x18, 0x56, 0xc4, 0xf0, 0x00,
	0x00, 0x00, 0x1d, 0xf9, 0x00, 0x08, 0x00, 0x00,
};
/* clang-format on */

static void a_captured_request(void **state)
{
	uint8_t out[RS_CONN_SIZE];
	struct rs_conn c;

	(void)state;
	assert_true(rs_conn_parse(captured, sizeof(captured), &c));
	assert_false(c.big_endian);
	assert_true(c.iomap);
	assert_int_equal(c.iomaps, 0);
	assert_int_equal(c.credits, 384);
	assert_int_equal(c.targets.addr, 0x7f1850003000);
	assert_int_equal(c.targets.key, 0x1cb6);
	assert_int_equal(c.targets.length, 2);
	assert_int_equal(c.buffer.addr, 0x7f1856c4f000);
	assert_int_equal(c.buffer.key, 0x1df9);
	assert_int_equal(c.buffer.length, 512 * 1024);
	rs_conn_pack(&c, out);
	assert_memory_equal(out, captured, sizeof(out));
}

static void what_is_no_request(void **state)
{
	uint8_t in[RS_CONN_SIZE];
	struct rs_conn c;

	(void)state;
	assert_false(rs_conn_parse(captured, RS_CONN_SIZE - 1, &c));
	assert_false(rs_conn_parse(NULL, 0, &c));
	memcpy(in, captured, sizeof(in));
	in[0] = 2; /* another version */
	assert_false(rs_conn_parse(in, sizeof(in), &c));
	memcpy(in, captured, sizeof(in));
	in[2] = in[3] = 0; /* no credits */
	assert_false(rs_conn_parse(in, sizeof(in), &c));
	memcpy(in, captured, sizeof(in));
	in[23] = 1; /* one target */
	assert_false(rs_conn_parse(in, sizeof(in), &c));
}

static void entries_without_the_flag_are_none(void **state)
{
	uint8_t in[RS_CONN_SIZE];
	struct rs_conn c;

	(void)state;
	memcpy(in, captured, sizeof(in));
	in[7] = 5;
	assert_true(rs_conn_parse(in, sizeof(in), &c));
	assert_int_equal(c.iomaps, 5);
	in[1] = RS_FLAG_BIG_ENDIAN;
	assert_true(rs_conn_parse(in, sizeof(in), &c));
	assert_true(c.big_endian);
	assert_int_equal(c.iomaps, 0);
}

static void scales(void **state)
{
	(void)state;
	for (uint32_t v = 0; v <= 128; v++)
		assert_int_equal(rs_unscale(rs_scale(v)), v);
	for (uint32_t v = 129; v < 70000; v++) {
		uint32_t back = rs_unscale(rs_scale(v));

		assert_true(back <= v);
		assert_true(v > 0x7f00 || v - back < 256);
	}
	assert_int_equal(rs_scale(0x7f00), 0xff);
	assert_int_equal(rs_scale(UINT32_MAX), 0xff);
}

static void assert_same(const struct rs_udp *a, const struct rs_udp *b)
{
	assert_int_equal(a->op, b->op);
	assert_int_equal(a->qpn, b->qpn);
	assert_memory_equal(a->ip, b->ip, 16);
}

static void headers_over_udp(void **state)
{
	static const uint8_t wire4[] = { 0x55, 0x55, 0x55, 0x55, 4,  0, 16, 0,
					 0,    0x12, 0x34, 0x56, 10, 1, 2,  3 };
	struct rs_udp h = { .op = RS_UDP_DATA,
			    .qpn = 0x123456,
			    .ip = { [10] = 0xff, 0xff, 10, 1, 2, 3 } },
		      got;
	uint8_t out[RS_HEADER_MAX];

	(void)state;
	assert_int_equal(rs_udp_pack(&h, out), 16);
	assert_memory_equal(out, wire4, 16);
	assert_int_equal(rs_udp_parse(out, 16, &got), 16);
	assert_same(&got, &h);
	h = (struct rs_udp){ .op = RS_UDP_CONTROL, .qpn = 1, .ip = { 0xfd, [15] = 7 } };
	assert_int_equal(rs_udp_pack(&h, out), 28);
	assert_int_equal(rs_udp_parse(out, 28, &got), 28);
	assert_same(&got, &h);
	assert_int_equal(rs_udp_parse(out, 27, &got), 0);
	out[5] = 1; /* no such operation */
	assert_int_equal(rs_udp_parse(out, 28, &got), 0);
	out[5] = 0, out[0] = 0; /* no tag */
	assert_int_equal(rs_udp_parse(out, 28, &got), 0);
	assert_int_equal(rs_udp_parse(wire4, 15, &got), 0);
}

static void headers_between_qps(void **state)
{
	static const uint8_t wire4[] = { 4, 8, 0x1c, 0x06, 10, 1, 2, 3 };
	struct rs_ud h = { .port = 7174, .ip = { [10] = 0xff, 0xff, 10, 1, 2, 3 } }, got;
	uint8_t out[RS_HEADER_MAX];

	(void)state;
	assert_int_equal(rs_ud_pack(&h, out), 8);
	assert_memory_equal(out, wire4, 8);
	assert_int_equal(rs_ud_parse(out, 8, &got), 8);
	assert_int_equal(got.port, 7174);
	assert_memory_equal(got.ip, h.ip, 16);
	assert_int_equal(rs_ud_parse(out, 7, &got), 0);
	out[1] = 24; /* a length of another version */
	assert_int_equal(rs_ud_parse(out, 28, &got), 0);
	h = (struct rs_ud){ .port = 9, .ip = { 0xfd, [15] = 7 } };
	assert_int_equal(rs_ud_pack(&h, out), 24);
	assert_int_equal(rs_ud_parse(out, 24, &got), 24);
	assert_memory_equal(got.ip, h.ip, 16);
	assert_int_equal(rs_ud_parse(out, 23, &got), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_captured_request),
		cmocka_unit_test(what_is_no_request),
		cmocka_unit_test(entries_without_the_flag_are_none),
		cmocka_unit_test(scales),
		cmocka_unit_test(headers_over_udp),
		cmocka_unit_test(headers_between_qps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
