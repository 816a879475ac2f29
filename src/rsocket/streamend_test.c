/* SPDX-License-Identifier: BSD-2-Clause */
/* One end of a stream, whose peer the test plays. */
#include "rsocket/streamend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { RBUF = 1000, SBUF = 700, HALF = RBUF / 2, RQ = 8, SQ = 6, MAPS = 3 };

static uint8_t rbuf[RBUF], sbuf[SBUF];
static struct {
	struct rs_sge targets[RS_TARGETS];
	struct rs_iomap maps[MAPS];
} shared;
static struct rs_stream s;

static const struct rs_conn peer = {
	.iomap = true,
	.credits = 4,
	.iomaps = 5,
	.targets = { 0x10000, 7, 3 },
	.buffer = { 0x20000, 8, 300 },
};

static int start(void **state)
{
	struct rs_memory m = {
		.rbuf = rbuf,
		.sbuf = sbuf,
		.rbuf_size = RBUF,
		.sbuf_size = SBUF,
		.shared = &shared,
		.rbuf_key = 11,
		.shared_key = 12,
		.sq = SQ,
		.rq = RQ,
		.iomaps = MAPS,
	};

	(void)state;
	memset(&shared, 0, sizeof(shared));
	rs_init(&s, &m);
	rs_start(&s, &peer);
	return 0;
}

static struct rs_write send(uint32_t len)
{
	struct rs_write w;

	assert_int_equal(rs_room(&s, len), len);
	rs_send(&s, len, false, &w);
	return w;
}

/* --- private data and immediates ----------------------------------------- */

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

/* --- sending ------------------------------------------------------------- */

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

/* --- receiving ----------------------------------------------------------- */

/* As in the capture, the second half goes to entry 1, and the credits are sent again. */
static void the_second_half_is_published_first_of_all(void **state)
{
	struct rs_write w;
	struct rs_sge e;

	(void)state;
	assert_true(rs_grant_due(&s));
	rs_send_grant(&s, &w);
	assert_false(rs_grant_due(&s));
	assert_int_equal(w.imm, 0x80000000u | RQ);
	assert_int_equal(w.addr, 0x10000 + sizeof(struct rs_sge));
	assert_int_equal(w.key, 7);
	memcpy(&e, w.image, sizeof(e));
	assert_int_equal(e.addr, (uintptr_t)rbuf + HALF);
	assert_int_equal(e.length, HALF);
	assert_int_equal(e.key, 11);
}

static void halves_come_round(void **state)
{
	struct rs_write w;

	(void)state;
	rs_send_grant(&s, &w);
	for (unsigned i = 0; i < 7; i++) {
		assert_int_equal(rs_received(&s, rs_imm(RS_DATA, HALF)), RS_EV_DATA);
		rs_consume(&s, HALF - 1);
		assert_false(rs_grant_due(&s));
		rs_consume(&s, 1);
		rs_sent(&s, true, 0);
		assert_true(rs_grant_due(&s));
		rs_send_grant(&s, &w);
		/* The peer's SGL has three entries, our buffer two halves. */
		assert_int_equal(w.addr, 0x10000 + (i + 2) % 3 * sizeof(struct rs_sge));
		assert_int_equal(*(uint64_t *)(void *)w.image,
				 (uintptr_t)rbuf + i % 2 * HALF);
	}
}

static void reads_go_round_the_ring(void **state)
{
	const uint8_t *at;
	struct rs_write w;

	(void)state;
	rs_send_grant(&s, &w);
	rs_received(&s, rs_imm(RS_DATA, HALF));
	rs_received(&s, rs_imm(RS_DATA, HALF));
	rs_consume(&s, HALF + 100);
	rs_sent(&s, true, 0);
	rs_send_grant(&s, &w);
	rs_received(&s, rs_imm(RS_DATA, 50));
	assert_int_equal(rs_unread(&s, 0, &at), HALF - 100);
	assert_ptr_equal(at, rbuf + HALF + 100);
	assert_int_equal(rs_unread(&s, HALF - 100, &at), 50);
	assert_ptr_equal(at, rbuf);
	assert_int_equal(rs_unread(&s, HALF - 90, &at), 40);
	assert_int_equal(rs_unread(&s, HALF - 50, &at), 0);
}

/* Small messages use up credits long before a half is read. */
static void credits_return_without_a_half(void **state)
{
	struct rs_write w;

	(void)state;
	rs_send_grant(&s, &w);
	for (int i = 0; i < RQ / 2; i++) {
		rs_received(&s, rs_imm(RS_DATA, 1));
		assert_false(rs_grant_due(&s));
	}
	rs_received(&s, rs_imm(RS_DATA, 1));
	assert_true(rs_grant_due(&s));
	rs_send_grant(&s, &w);
	assert_int_equal(w.imm, rs_imm(RS_GRANT, RQ / 2 + 1 + RQ));
	assert_int_equal(w.len, 0);
}

static void a_peer_of_the_other_order(void **state)
{
	struct rs_conn other = peer;
	struct rs_write w;
	struct rs_sge e;

	(void)state;
	other.big_endian = !rs_host_is_big();
	rs_start(&s, &other);
	rs_send_grant(&s, &w);
	memcpy(&e, w.image, sizeof(e));
	assert_int_equal(e.length, __builtin_bswap32(HALF));
	assert_int_equal(e.key, __builtin_bswap32(11));
	assert_int_equal(e.addr, __builtin_bswap64((uintptr_t)rbuf + HALF));
}

/* --- direct placement ---------------------------------------------------- */

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
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_is_said_of_oneself, start),
		cmocka_unit_test_setup(more_than_was_published, start),
		cmocka_unit_test_setup(immediates_that_are_none, start),
		cmocka_unit_test_setup(messages_that_were_sent, start),
		cmocka_unit_test_setup(a_buffer_is_filled_before_the_next, start),
		cmocka_unit_test_setup(credits_and_grants, start),
		cmocka_unit_test_setup(four_controls_at_most, start),
		cmocka_unit_test_setup(sbuf_goes_round, start),
		cmocka_unit_test_setup(credits_that_are_left_to_controls, start),
		cmocka_unit_test_setup(the_second_half_is_published_first_of_all, start),
		cmocka_unit_test_setup(halves_come_round, start),
		cmocka_unit_test_setup(reads_go_round_the_ring, start),
		cmocka_unit_test_setup(credits_return_without_a_half, start),
		cmocka_unit_test_setup(a_peer_of_the_other_order, start),
		cmocka_unit_test_setup(iomaps, start),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
