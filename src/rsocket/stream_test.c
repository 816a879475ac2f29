/* SPDX-License-Identifier: BSD-2-Clause */
/* The private data of one end, and what it receives. */
#include "rsocket/stream_fix.h"

static void what_is_said_of_oneself(void **state)
{
	struct rs_conn c;

	(void)state;
	rs_self(&s, &c);
	assert_int_equal(c.credits, RQ);
	assert_int_equal(c.iomaps, MAPS);
	assert_int_equal(c.targets.addr, (uintptr_t)&shared);
	assert_int_equal(c.targets.length, RS_TARGETS);
	assert_int_equal(c.buffer.addr, (uintptr_t)rbuf);
	assert_int_equal(c.buffer.length, HALF);
}

static void more_than_was_published(void **state)
{
	(void)state;
	assert_int_equal(rs_received(&s, rs_imm(RS_DATA, HALF + 1)), RS_EV_BROKEN);
	assert_int_equal(rs_received(&s, rs_imm(RS_DATA, RS_LOWER)), RS_EV_BROKEN);
	assert_int_equal(s.unread, 0);
	assert_int_equal(rs_received(&s, rs_imm(RS_DATA, HALF)), RS_EV_DATA);
	/* The second half is not published. */
	assert_int_equal(rs_received(&s, rs_imm(RS_DATA, 1)), RS_EV_BROKEN);
}

static void immediates_that_are_none(void **state)
{
	(void)state;
	for (uint32_t op = 0; op < 8; op++) {
		enum rs_event ev = rs_received(&s, op << 29);
		bool known = op == RS_DATA || op == RS_GRANT || op == RS_IOMAP ||
			     op == RS_CONTROL;

		assert_int_equal(ev == RS_EV_BROKEN, !known);
	}
	assert_int_equal(rs_received(&s, rs_imm(RS_CONTROL, RS_SHUTDOWN)),
			 RS_EV_SHUTDOWN);
	assert_int_equal(rs_received(&s, rs_imm(RS_CONTROL, RS_DISCONNECT)),
			 RS_EV_DISCONNECT);
	assert_int_equal(rs_received(&s, rs_imm(RS_CONTROL, RS_KEEPALIVE)), RS_EV_NONE);
	assert_int_equal(rs_received(&s, rs_imm(RS_CONTROL, 77)), RS_EV_NONE);
}

static void messages_that_were_sent(void **state)
{
	static const uint8_t here[RS_MESSAGE] = { 1, 2, 3, 0x80 };
	struct rs_conn other = peer;
	uint32_t imm;

	(void)state;
	memcpy(&imm, here, sizeof(imm));
	assert_int_equal(rs_message(&s, here), imm);
	other.big_endian = !rs_host_is_big();
	rs_start(&s, &other);
	assert_int_equal(rs_message(&s, here), __builtin_bswap32(imm));
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_is_said_of_oneself, start),
		cmocka_unit_test_setup(more_than_was_published, start),
		cmocka_unit_test_setup(immediates_that_are_none, start),
		cmocka_unit_test_setup(messages_that_were_sent, start),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
