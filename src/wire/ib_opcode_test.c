/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks the opcode table against the constants that applications compile in. */
#include "wire/ib_opcode.h"

#include <infiniband/opcode.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "wire/ib_hdr.h"

static void agrees_with_the_public_constants(void **state)
{
	(void)state;
	assert_int_equal(ib_opcode(IB_RC, IB_SEND, IB_ONLY, IB_IMM),
			 IBV_OPCODE_RC_SEND_ONLY_WITH_IMMEDIATE);
	assert_int_equal(ib_opcode(IB_UC, IB_WRITE, IB_LAST, IB_IMM),
			 IBV_OPCODE_UC_RDMA_WRITE_LAST_WITH_IMMEDIATE);
	assert_int_equal(ib_opcode(IB_UD, IB_SEND, IB_ONLY, IB_NONE),
			 IBV_OPCODE_UD_SEND_ONLY);
	assert_int_equal(ib_opcode(IB_RC, IB_ATOMIC_RESP, IB_ONLY, IB_NONE),
			 IBV_OPCODE_RC_ATOMIC_ACKNOWLEDGE);
	assert_int_equal(ib_opcode(IB_CNP, IB_CONGESTION, IB_ONLY, IB_NONE), 0x81);
}

static void every_opcode_survives_the_round_trip(void **state)
{
	int meanings = 0;

	(void)state;
	for (unsigned code = 0; code < 256; code++) {
		const struct ib_op *op = ib_op((uint8_t)code);

		if (!op) {
			assert_int_equal(ib_op_ext((uint8_t)code), 0);
			assert_int_equal(ib_hdr_len((uint8_t)code), 0);
			continue;
		}
		meanings++;
		assert_int_equal(ib_opcode(ib_service((uint8_t)code), op->kind, op->place,
					   op->tail),
				 code);
	}
	assert_int_equal(meanings, 25 + 12 + 2 + 25 + 1); /* RC UC UD XRC CNP */
}

static void every_name_tells_its_place(void **state)
{
	(void)state;
	for (unsigned code = 0; code < 256; code++) {
		const struct ib_op *op = ib_op((uint8_t)code);

		if (!op)
			continue;
		assert_int_equal(op->place, strstr(op->name, "FIRST")	 ? IB_FIRST
					    : strstr(op->name, "MIDDLE") ? IB_MIDDLE
					    : strstr(op->name, "LAST")	 ? IB_LAST
									 : IB_ONLY);
	}
}

/* Length of BTH and extended headers, from the packet diagrams rather than from our own
 * table: RC as listed, UC the same, UD 8 more, XRC requests 4 more. */
static void every_opcode_has_its_headers(void **state)
{
	/* clang-format off */
	static const uint8_t rc[32] = {
		12, 12, 12, 16, 12, 16, 28, 12, 12, 16, 28, 32, 28, 16, 12, 16,
		16, 16, 24, 40, 40,  0, 16, 16,  0,  0,  0,  0, 32, 28,
	};
	/* clang-format on */
	static const size_t more[8] = { [IB_UD] = 8, [IB_XRC] = 4 };

	(void)state;
	for (unsigned code = 0; code < 256; code++) {
		const struct ib_op *op = ib_op((uint8_t)code);
		size_t want;

		if (!op || code == 0x81)
			continue;
		want = rc[code & 31] + (ib_is_request(op) ? more[code >> 5] : 0);
		assert_int_equal(ib_hdr_len((uint8_t)code), want);
	}
	assert_int_equal(ib_hdr_len(0x81), 12 + 16);
}

static void requests_and_responses_are_told_apart(void **state)
{
	(void)state;
	assert_true(ib_is_request(ib_op(IBV_OPCODE_RC_SEND_ONLY)));
	assert_true(ib_is_request(ib_op(IBV_OPCODE_RC_RDMA_READ_REQUEST)));
	assert_true(ib_is_request(ib_op(IBV_OPCODE_RC_FETCH_ADD)));
	assert_false(ib_is_request(ib_op(IBV_OPCODE_RC_RDMA_READ_RESPONSE_FIRST)));
	assert_false(ib_is_request(ib_op(IBV_OPCODE_RC_ACKNOWLEDGE)));
	assert_false(ib_is_request(ib_op(IBV_OPCODE_RC_ATOMIC_ACKNOWLEDGE)));
	assert_false(ib_is_request(ib_op(0x81)));
}

static void messages_are_first_middle_last_or_only(void **state)
{
	const struct ib_op *first = ib_op(IBV_OPCODE_RC_SEND_FIRST);
	const struct ib_op *last = ib_op(IBV_OPCODE_RC_SEND_LAST_WITH_IMMEDIATE);
	const struct ib_op *write_last = ib_op(IBV_OPCODE_RC_RDMA_WRITE_LAST);

	(void)state;
	assert_true(ib_may_follow(NULL, first));
	assert_true(ib_may_follow(first, last));
	assert_false(ib_may_follow(NULL, last));
	assert_false(ib_may_follow(first, first));
	assert_false(ib_may_follow(first, write_last));
	assert_true(ib_may_follow(last, first));
	assert_int_equal(ib_place(false, false), IB_FIRST);
	assert_int_equal(ib_place(false, true), IB_ONLY);
	assert_int_equal(ib_place(true, false), IB_MIDDLE);
	assert_int_equal(ib_place(true, true), IB_LAST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_the_public_constants),
		cmocka_unit_test(every_opcode_survives_the_round_trip),
		cmocka_unit_test(every_name_tells_its_place),
		cmocka_unit_test(every_opcode_has_its_headers),
		cmocka_unit_test(requests_and_responses_are_told_apart),
		cmocka_unit_test(messages_are_first_middle_last_or_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
