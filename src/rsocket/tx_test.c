/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending: one end, whose peer the test plays. */
#include "rsocket/stream_fix.h"

static void a_buffer_is_filled_before_the_next(void **state)
{
	struct rs_write w;

	(void)state;
	w = send(200);
	assert_int_equal(w.addr, 0x20000);
	assert_int_equal(w.key, 8);
	assert_int_equal(w.imm, 200);
	assert_ptr_equal(w.from, sbuf);
	assert_int_equal(rs_room(&s, 500), 100);
	w = send(100);
	assert_int_equal(w.addr, 0x20000 + 200);
	assert_int_equal(rs_room(&s, 500), 0); /* no other buffer is published */
	shared.targets[1] = (struct rs_sge){ 0x30000, 9, 1000 };
	assert_int_equal(rs_room(&s, 500), 400); /* up to the end of sbuf */
	w = send(10);
	assert_int_equal(w.addr, 0x30000);
	assert_int_equal(w.key, 9);
	assert_int_equal(shared.targets[1].length, 0); /* cleared for the next time */
}

static void credits_and_grants(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		send(1);
	assert_int_equal(rs_room(&s, 1), 0);
	assert_int_equal(rs_received(&s, rs_imm(RS_GRANT, 5)), RS_EV_GRANT);
	send(1);
	assert_int_equal(rs_room(&s, 1), 0);
	rs_received(&s, rs_imm(RS_GRANT, 20));
	send(1);
	assert_int_equal(rs_room(&s, 1), 0); /* the send queue is full */
	rs_sent(&s, false, 1);
	send(1);
}

static void four_controls_at_most(void **state)
{
	struct rs_write w;

	(void)state;
	for (int i = 0; i < RS_CONTROLS; i++) {
		assert_true(rs_may_control(&s));
		rs_send_control(&s, RS_SHUTDOWN, &w);
		assert_int_equal(w.imm, 0xe0000002);
	}
	rs_sent(&s, true, 0);
	rs_send_keepalive(&s, &w);
	assert_false(w.has_imm || w.len); /* takes no receive */
	assert_false(rs_may_control(&s));
	assert_false(rs_grant_due(&s));
	rs_sent(&s, true, 0);
	assert_true(rs_grant_due(&s));
}

static void sbuf_goes_round(void **state)
{
	struct rs_write w;

	(void)state;
	s.to.length = 100000;
	s.granted = 1000;
	send(400);
	assert_int_equal(rs_room(&s, 1000), 300);
	send(300);
	assert_int_equal(rs_room(&s, 1000), 0);
	rs_sent(&s, false, SBUF / 4 - 1);
	assert_int_equal(rs_room(&s, 1000), 0); /* a small piece is not sent */
	assert_int_equal(rs_room(&s, 174), 174);
	rs_sent(&s, false, 400 - (SBUF / 4 - 1));
	s.data_out++;
	assert_int_equal(rs_room(&s, 1000), 400);
	w = send(400);
	assert_ptr_equal(w.from, sbuf);
	assert_int_equal(rs_room(&s, 1000), 0);
	rs_sent(&s, false, 300);
	assert_int_equal(rs_room(&s, 1000), 300);
}

/* On iWARP rdma-core posts a receive for each credit only, and a missing one ends the
 * connection. */
static void credits_that_are_left_to_controls(void **state)
{
	struct rs_conn some = peer;

	(void)state;
	s.m.no_rnr = true;
	some.credits = 20;
	rs_start(&s, &some);
	s.granted = RS_CONTROLS + 1;
	send(1);
	assert_int_equal(rs_room(&s, 1), 0);
	rs_received(&s, rs_imm(RS_GRANT, RS_CONTROLS + 2));
	send(1);
	assert_int_equal(rs_room(&s, 1), 0);
	s.sent = s.granted = 0;
	some.credits = 4; /* the peer grants new ones when three of them are used */
	rs_start(&s, &some);
	send(1);
	send(1);
	send(1);
	assert_int_equal(rs_room(&s, 1), 0);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_buffer_is_filled_before_the_next, start),
		cmocka_unit_test_setup(credits_and_grants, start),
		cmocka_unit_test_setup(four_controls_at_most, start),
		cmocka_unit_test_setup(sbuf_goes_round, start),
		cmocka_unit_test_setup(credits_that_are_left_to_controls, start),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
