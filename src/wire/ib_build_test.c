/* SPDX-License-Identifier: BSD-2-Clause */
/* Headers written by hand from the packet diagrams; and every opcode is built, parsed and
 * built again. */
#include "wire/ib_pkt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "wire/ib_hdr.h"

static const struct ib_fields all = {
	.pad = 2,
	.se = true,
	.migreq = true,
	.ackreq = true,
	.fecn = true,
	.pkey = 0xffff,
	.dest_qp = 0x010203,
	.psn = 0xa0b0c0,
	.qkey = 0x11223344,
	.src_qp = 0x556677,
	.srqn = 0x8899aa,
	.flush = 0x12345678,
	.va = 0x0102030405060708,
	.rkey = 0xcafebabe,
	.dma_len = 0x00010002,
	.swap_add = 0x1112131415161718,
	.compare = 0x2122232425262728,
	.syndrome = 0x1f,
	.msn = 0x313233,
	.orig = 0x4142434445464748,
	.imm = 0,
	.inv_rkey = 0x51525354,
};

#define BTH(code) code, 0xe0, 0xff, 0xff, 0x80, 1, 2, 3, 0x80, 0xa0, 0xb0, 0xc0

static void build_is(uint8_t opcode, const uint8_t *want, size_t len)
{
	uint8_t got[IB_HDR_MAX + 1];
	struct ib_fields f = all;

	f.opcode = opcode;
	memcpy(&f.imm, "\x61\x62\x63\x64", 4);
	memset(got, 0xee, sizeof(got));
	assert_int_equal(ib_build(got, &f), len);
	assert_memory_equal(got, want, len);
	assert_int_equal(got[len], 0xee);
}

#define BUILD_IS(code, ...)                                                              \
	do {                                                                             \
		static const uint8_t want_[] = { BTH(code), __VA_ARGS__ };               \
		build_is(code, want_, sizeof(want_));                                    \
	} while (0)

static void headers_are_as_the_diagrams_say(void **state)
{
	(void)state;
	/* UD Send Only with Immediate: DETH, ImmDt */
	BUILD_IS(0x65, 0x11, 0x22, 0x33, 0x44, 0, 0x55, 0x66, 0x77, 0x61, 0x62, 0x63,
		 0x64);
	/* RC Write Only with Immediate: RETH, ImmDt */
	BUILD_IS(0x0b, 1, 2, 3, 4, 5, 6, 7, 8, 0xca, 0xfe, 0xba, 0xbe, 0, 1, 0, 2, 0x61,
		 0x62, 0x63, 0x64);
	/* XRC Compare and Swap: XRCETH, AtomicETH with swap before compare */
	BUILD_IS(0xb3, 0, 0x88, 0x99, 0xaa, 1, 2, 3, 4, 5, 6, 7, 8, 0xca, 0xfe, 0xba,
		 0xbe, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23,
		 0x24, 0x25, 0x26, 0x27, 0x28);
	/* RC Atomic Acknowledge: AETH, AtomicAckETH */
	BUILD_IS(0x12, 0x1f, 0x31, 0x32, 0x33, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47,
		 0x48);
	/* RC Send Only with Invalidate: IETH */
	BUILD_IS(0x17, 0x51, 0x52, 0x53, 0x54);
	/* RC Flush: FETH, RETH */
	BUILD_IS(0x1c, 0x12, 0x34, 0x56, 0x78, 1, 2, 3, 4, 5, 6, 7, 8, 0xca, 0xfe, 0xba,
		 0xbe, 0, 1, 0, 2);
	/* CNP: 16 reserved bytes */
	BUILD_IS(0x81, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

static void one_flag_sets_one_bit(void **state)
{
	/* clang-format off */
	static const struct { struct ib_fields f; int byte, bits; } row[] = {
		{ { .se = true },     1, 0x80 },
		{ { .migreq = true }, 1, 0x40 },
		{ { .pad = 1 },       1, 0x10 },
		{ { .pad = 2 },       1, 0x20 },
		{ { .fecn = true },   4, 0x80 },
		{ { .becn = true },   4, 0x40 },
		{ { .ackreq = true }, 8, 0x80 },
	};
	/* clang-format on */

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		uint8_t want[12] = { 0 }, got[IB_HDR_MAX];

		want[row[i].byte] = (uint8_t)row[i].bits;
		assert_int_equal(ib_build(got, &row[i].f), 12);
		assert_memory_equal(got, want, 12);
	}
}

static void every_opcode_is_rebuilt_from_its_fields(void **state)
{
	size_t longest = 0;

	(void)state;
	for (unsigned code = 0; code < 256; code++) {
		uint8_t first[IB_HDR_MAX + 4] = { 0 }, second[IB_HDR_MAX];
		struct ib_fields f = all;
		struct ib_pkt pkt;
		size_t len;

		if (!ib_op((uint8_t)code))
			continue;
		f.opcode = (uint8_t)code;
		f.imm = 0x61626364;
		len = ib_build(first, &f);
		assert_int_equal(len, ib_hdr_len((uint8_t)code));
		assert_int_equal(ib_parse(&pkt, first, len + 4), 0);
		assert_int_equal(pkt.payload_len, 2);
		assert_int_equal(ib_build(second, &pkt.f), len);
		assert_memory_equal(first, second, len);
		if (len > longest)
			longest = len;
	}
	assert_int_equal(longest, IB_HDR_MAX);
}

static void numbers_are_taken_modulo_their_width(void **state)
{
	struct ib_fields f = { .dest_qp = 0x1000001, .psn = 0xff000002, .pad = 4 };
	uint8_t got[IB_HDR_MAX];

	(void)state;
	ib_build(got, &f);
	assert_memory_equal(got, "\0\0\0\0\0\0\0\1\0\0\0\2", 12);
}

static void the_psn_is_changed_alone(void **state)
{
	struct ib_fields f = {
		.opcode = 7, .pkey = 0x1234, .dest_qp = 0x567890, .pad = 2
	};
	uint8_t built[IB_HDR_MAX], changed[IB_HDR_MAX];

	(void)state;
	for (unsigned i = 0; i < 64; i++) {
		ib_build(changed, &f);
		f.psn = i * 0x41041 & 0xffffff;
		f.ackreq = i % 3 == 0;
		ib_set_psn(changed, &f);
		assert_int_equal(ib_build(built, &f), 12);
		assert_memory_equal(changed, built, 12);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_psn_is_changed_alone),
		cmocka_unit_test(headers_are_as_the_diagrams_say),
		cmocka_unit_test(one_flag_sets_one_bit),
		cmocka_unit_test(every_opcode_is_rebuilt_from_its_fields),
		cmocka_unit_test(numbers_are_taken_modulo_their_width),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
