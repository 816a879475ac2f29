/* SPDX-License-Identifier: BSD-2-Clause */
/* The parser, with packets cut to every length. */
#include "wire/ib_pkt.h"

#include <errno.h>
#include <infiniband/opcode.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/ib_hdr.h"

static void headers_end_where_the_payload_begins(void **state)
{
	(void)state;
	for (unsigned code = 0; code < 256; code++) {
		uint8_t bytes[64] = { (uint8_t)code };
		struct ib_pkt pkt;

		if (!ib_op((uint8_t)code))
			continue;
		assert_int_equal(ib_parse(&pkt, bytes, sizeof(bytes)), 0);
		assert_ptr_equal(pkt.payload, bytes + ib_hdr_len((uint8_t)code));
		assert_ptr_equal(pkt.op, ib_op((uint8_t)code));
		assert_int_equal(pkt.f.opcode, code);
	}
}

/* Parses a packet cut to len, in a heap block of that size, so that ASan sees any read
 * beyond it. */
static int parse_cut(struct ib_pkt *pkt, const void *bytes, size_t len)
{
	void *block = malloc(len ? len : 1);
	int rc;

	assert_non_null(block);
	memcpy(block, bytes, len);
	rc = ib_parse(pkt, block, len);
	free(block);
	return rc;
}

static void a_packet_cut_short_is_refused(void **state)
{
	(void)state;
	for (unsigned code = 0; code < 256; code++) {
		uint8_t bytes[64] = { (uint8_t)code };
		struct ib_pkt pkt;
		size_t need = 0;

		if (!ib_op((uint8_t)code)) {
			assert_int_equal(parse_cut(&pkt, bytes, sizeof(bytes)), -EPROTO);
			continue;
		}
		while (parse_cut(&pkt, bytes, need) != 0)
			need++;
		assert_int_equal(need, ib_hdr_len((uint8_t)code));
		assert_int_equal(pkt.payload_len, 0);
		assert_int_equal(parse_cut(&pkt, bytes, need + 8), 0);
		assert_int_equal(pkt.payload_len, 8);
	}
}

static void pad_bytes_must_be_there(void **state)
{
	uint8_t bytes[16] = { IBV_OPCODE_RC_SEND_ONLY, 0x30 };
	struct ib_pkt pkt;

	(void)state;
	assert_int_equal(parse_cut(&pkt, bytes, 14), -EPROTO);
	assert_int_equal(parse_cut(&pkt, bytes, 15), 0);
	assert_int_equal(pkt.payload_len, 0);
	assert_int_equal(parse_cut(&pkt, bytes, 16), 0);
	assert_int_equal(pkt.payload_len, 1);
}

static void another_transport_version_is_refused(void **state)
{
	uint8_t bytes[16] = { IBV_OPCODE_RC_SEND_ONLY };
	struct ib_pkt pkt;

	(void)state;
	for (unsigned tver = 1; tver < 16; tver++) {
		bytes[1] = (uint8_t)tver;
		assert_int_equal(ib_parse(&pkt, bytes, sizeof(bytes)), -EPROTO);
	}
}

static void a_write_is_taken_apart(void **state)
{
	struct {
		struct bth bth;
		struct reth reth;
		struct immdt immdt;
		uint8_t data[4];
	} w = {
		.bth = {
			.opcode = IBV_OPCODE_RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE,
			.ackreq = BTH_A, .dest_qp = be24(0x11), .psn = be24(0x1fffffe),
		},
		.reth = { be64(0x1122334455667788), be32(0xabcd), be32(3) },
		.immdt = { be32(7) },
	};
	struct ib_pkt pkt;

	(void)state;
	bth_set_pad(&w.bth, 1);
	assert_int_equal(ib_parse(&pkt, &w, sizeof(w)), 0);
	assert_int_equal(pkt.f.psn, 0xfffffe);
	assert_true(pkt.f.ackreq);
	assert_false(pkt.f.se);
	assert_int_equal(pkt.f.va, 0x1122334455667788);
	assert_memory_equal(&pkt.f.imm, "\0\0\0\7", 4);
	assert_int_equal(pkt.payload_len, 3);
	assert_ptr_equal(pkt.payload, w.data);
	assert_false(ib_has(&pkt, IB_AETH));
	assert_false(ib_has(&pkt, IB_DETH));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers_end_where_the_payload_begins),
		cmocka_unit_test(a_packet_cut_short_is_refused),
		cmocka_unit_test(pad_bytes_must_be_there),
		cmocka_unit_test(another_transport_version_is_refused),
		cmocka_unit_test(a_write_is_taken_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
