/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving: one end, whose peer the test plays. */
#include "rsocket/stream_fix.h"

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

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_second_half_is_published_first_of_all, start),
		cmocka_unit_test_setup(halves_come_round, start),
		cmocka_unit_test_setup(reads_go_round_the_ring, start),
		cmocka_unit_test_setup(credits_return_without_a_half, start),
		cmocka_unit_test_setup(a_peer_of_the_other_order, start),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
