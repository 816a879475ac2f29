/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/rdmap.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "wire/ddp.h"

/* RFC 5040, figure 4; RFC 7306, figure 1: which queue, and tagged or not. */
static void opcodes_and_their_queues(void **state)
{
	static const int queue[16] = { -1, 1, -1, 0, 0,	 0,  0,	 2,
				       0,  0, 1,  3, -2, -2, -2, -2 };

	(void)state;
	for (unsigned i = 0; i < 16; i++) {
		const struct rdmap_op *op = rdmap_op(i);

		if (queue[i] == -2) {
			assert_null(op);
			continue;
		}
		assert_non_null(op);
		assert_int_equal(op->tagged, queue[i] == -1);
		assert_int_equal(op->queue, queue[i] < 0 ? 0 : queue[i]);
		assert_int_equal(op->inv, i == 4 || i == 6);
		assert_int_equal(op->se, i == 5 || i == 6 || i == 9);
		assert_int_equal(op->imm, i == 8 || i == 9);
	}
	assert_null(rdmap_op(16));
	assert_int_equal(rdmap_control(RDMAP_READ_RESPONSE), 0x42);
	assert_int_equal(rdmap_version(0x42), 1);
	assert_int_equal(rdmap_opcode(0x7f), 15);
}

static void read_requests(void **state)
{
	struct rdmap_read back, r = { 0x11223344, 0x0102030405060708, 0x99aabbcc,
				      0x55667788, 0x1112131415161718 };
	static const uint8_t want[] = "\x11\x22\x33\x44\1\2\3\4\5\6\7\x8\x99\xaa\xbb\xcc"
				      "\x55\x66\x77\x88\x11\x12\x13\x14\x15\x16\x17\x18";
	uint8_t at[RDMAP_READ_LEN];

	(void)state;
	rdmap_read_build(at, &r);
	assert_memory_equal(at, want, sizeof(at));
	memset(&back, 0, sizeof(back));
	rdmap_read_parse(&back, at);
	assert_memory_equal(at, want, sizeof(at));
	assert_int_equal(back.sink_stag, r.sink_stag);
	assert_int_equal(back.sink_to, r.sink_to);
	assert_int_equal(back.len, r.len);
	assert_int_equal(back.src_stag, r.src_stag);
	assert_int_equal(back.src_to, r.src_to);
}

static void atomics(void **state)
{
	struct rdmap_atomic back, a = { RDMAP_CMP_SWAP, 1, 2, 3, 4, 5, 6, 7 };
	struct rdmap_atomic_response rback, r = { 0x01020304, 0x05060708090a0b0c };
	uint8_t at[RDMAP_ATOMIC_LEN];

	(void)state;
	rdmap_atomic_build(at, &a);
	assert_memory_equal(at, "\0\0\0\2\0\0\0\1\0\0\0\2", 12);
	for (int i = 0; i < 5; i++) {
		uint8_t word[8] = { [7] = (uint8_t)(3 + i) };

		assert_memory_equal(at + 12 + 8 * i, word, 8);
	}
	rdmap_atomic_parse(&back, at);
	assert_int_equal(back.op, 2);
	assert_int_equal(back.compare_mask, 7);
	rdmap_atomic_response_build(at, &r);
	assert_memory_equal(at, "\1\2\3\4\5\6\7\x8\x9\xa\xb\xc", 12);
	rdmap_atomic_response_parse(&rback, at);
	assert_int_equal(rback.id, r.id);
	assert_int_equal(rback.orig, r.orig);
}

/* The codes are those of tshark's iwarp_rdma. */
static void what_terminates_say(void **state)
{
	(void)state;
	assert_int_equal(TERM_DDP_TOO_LONG, 0x1205);
	assert_int_equal(TERM_MPA_CRC, 0x2002);
	assert_int_equal(TERM_RDMAP_NO_INVALIDATE, 0x0109);
	assert_int_equal(rdmap_layer(TERM_DDP_STAG), TERM_DDP);
	assert_int_equal(rdmap_etype(TERM_DDP_TOO_LONG), TERM_UNTAGGED);
	assert_string_equal(rdmap_error_str(TERM_MPA_IRD),
			    "MPA: insufficient IRD resources");
	assert_string_equal(rdmap_error_str(0xffff), "unknown");
}

static void terminates(void **state)
{
	uint8_t at[RDMAP_TERM_MAX], ddp[DDP_HDR_MAX], read[RDMAP_READ_LEN];
	struct ddp d = { .version = 1, .last = true, .ulp = 0x41, .qn = 1, .msn = 5 };
	struct rdmap_term back, t = {
		.error = TERM_RDMAP_BOUNDS,
		.has_len = true,
		.has_ddp = true,
		.has_rdmap = true,
		.segment_len = 46,
		.ddp = ddp,
		.rdmap = read,
	};
	size_t n;

	(void)state;
	memset(read, 0x77, sizeof(read));
	t.ddp_len = ddp_build(ddp, &d);
	n = rdmap_term_build(at, &t);
	assert_int_equal(n, RDMAP_TERM_MAX);
	assert_memory_equal(at, "\x01\x01\xe0\0\0\x2e", 6);
	assert_memory_equal(at + 6, ddp, 18);
	assert_int_equal(rdmap_term_parse(&back, at, n), 0);
	assert_int_equal(back.error, t.error);
	assert_int_equal(back.segment_len, 46);
	assert_int_equal(back.ddp_len, 18);
	assert_ptr_equal(back.ddp, at + 6);
	assert_ptr_equal(back.rdmap, at + 24);
	for (size_t less = 0; less < n; less++)
		assert_int_equal(rdmap_term_parse(&back, at, less), -EBADMSG);

	t = (struct rdmap_term){ .error = TERM_MPA_CRC };
	n = rdmap_term_build(at, &t);
	assert_int_equal(n, RDMAP_TERM_LEN);
	assert_memory_equal(at, "\x20\x02\0\0", 4);
	assert_int_equal(rdmap_term_parse(&back, at, n), 0);
	assert_null(back.rdmap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opcodes_and_their_queues),
		cmocka_unit_test(read_requests),
		cmocka_unit_test(atomics),
		cmocka_unit_test(what_terminates_say),
		cmocka_unit_test(terminates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
