/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of several VLs compete for one link, or for one program's room: each VL gets
 * the share that the link's arbitration tables give it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fabric/data_fix.h"

enum { OUT_BLOCKS = (LEN + 8 + 63) / 64, HALF = PACKETS / 2 };

static struct fab_port *out(void)
{
	return &w.f->node[0].port[B];
}

static void entry(unsigned table, unsigned i, uint8_t vl, unsigned packets)
{
	out()->vl_arb[table][2 * i] = vl;
	out()->vl_arb[table][2 * i + 1] = (uint8_t)(packets * OUT_BLOCKS);
}

/* A sends on SL 0 and C on `sl`, both more packets than there is room for. */
static void both_send(uint8_t sl)
{
	w.room = 0;
	for (unsigned i = 0; i < PACKETS; i++) {
		struct mad_pkt pkt = packet(i, B + 1);

		pkt.sl = i < HALF ? 0 : sl;
		assert_int_equal(fabric_inject(w.f, i < HALF ? A : C, 1, &pkt), 0);
	}
	run();
	assert_int_equal(w.done, 0);
}

static void make_room(unsigned n)
{
	w.room = n;
	fabric_room(w.f, B, 1);
	run();
}

/* The shares are the same whether the program makes room for one packet or for many. */
static void shares(unsigned room)
{
	entry(0, 0, 0, 3);
	entry(0, 1, 1, 1);
	both_send(1);
	for (unsigned n = 0; n < 200; n += room)
		make_room(room);
	assert_int_equal(w.by_sl[0], 150);
	assert_int_equal(w.by_sl[1], 50);
	assert_memory_equal(w.order, "000100010001", 12);
	make_room(PACKETS);
	assert_int_equal(w.taken[B], PACKETS);
	assert_int_equal(w.done, PACKETS);
	assert_int_equal(fabric_next(w.f), UINT64_MAX);
}

static void room_for_one(void **state)
{
	(void)state;
	shares(1);
}

static void room_for_many(void **state)
{
	(void)state;
	shares(100);
}

/* The program makes room while the fabric offers packets: the packet that was refused
 * gets the room, not the next one. */
static void room_in_between(void **state)
{
	(void)state;
	entry(0, 0, 0, 3);
	entry(0, 1, 1, 1);
	both_send(1);
	for (unsigned i = 0; i < 100; i++) {
		w.freed = 1;
		make_room(w.room);
	}
	assert_in_range(w.by_sl[0], 74, 75);
	assert_in_range(w.by_sl[1], 24, 25);
}

/* With room for all packets, the order of arrival is that of the tables. */
static void order_of_a_run(void **state)
{
	(void)state;
	entry(0, 0, 1, 2);
	entry(0, 1, 0, 1);
	for (unsigned i = 0; i < 12; i++) {
		struct mad_pkt pkt = packet(i, B + 1);

		pkt.sl = i >= 6;
		assert_int_equal(fabric_inject(w.f, i < 6 ? A : C, 1, &pkt), 0);
	}
	run();
	assert_string_equal(w.order, "110110110000");
}

/* If no subnet manager has written the tables, all VLs have equal shares. */
static void no_tables(void **state)
{
	(void)state;
	both_send(1);
	for (unsigned i = 0; i < 100; i++)
		make_room(1);
	assert_int_equal(w.by_sl[0], 50);
	assert_int_equal(w.by_sl[1], 50);
}

/* Two ports of a switch send on the same VL: they take turns. */
static void one_vl(void **state)
{
	(void)state;
	both_send(0);
	for (unsigned i = 0; i < 200; i++)
		make_room(1);
	/* the packets in B's buffer may all be of one sender */
	assert_in_range(w.f->node[A].port[1].count.xmit_pkts, 110, 150);
	assert_in_range(w.f->node[C].port[1].count.xmit_pkts, 110, 150);
}

/* Packets of low priority wait until those of high priority are through. That does not
 * count as lateness of the receiving program, which takes what it is offered. */
static void high_priority(void **state)
{
	(void)state;
	entry(0, 0, 0, 1);
	entry(2, 0, 1, 1);
	out()->pi.vl_high_limit = 255;
	both_send(1);
	for (unsigned i = 0; i < HALF; i++) {
		w.now += 100000000;
		make_room(1);
	}
	assert_int_equal(w.by_sl[1], HALF);
	make_room(PACKETS);
	assert_int_equal(w.by_sl[0], HALF);
	assert_int_equal(w.f->node[B].port[1].count.rcv_errors, 0);
}

static void limit_of_high_priority(void **state)
{
	(void)state;
	entry(0, 0, 0, 1);
	entry(2, 0, 1, 1);
	both_send(1);
	for (unsigned i = 0; i < 100; i++)
		make_room(1);
	assert_int_equal(w.by_sl[0], 50);
	out()->pi.vl_high_limit = 2; /* 8 KiB, which are 8 packets */
	memset(w.by_sl, 0, sizeof(w.by_sl));
	for (unsigned i = 0; i < 90; i++)
		make_room(1);
	assert_int_equal(w.by_sl[0], 10);
	assert_int_equal(w.by_sl[1], 80);
}

/* The turn of a stopped program's packets is not lost to the other packets. */
static void one_program_stops(void **state)
{
	(void)state;
	entry(0, 0, 0, 3);
	entry(0, 1, 1, 1);
	w.stopped = true;
	w.room = PACKETS;
	for (unsigned i = 0; i < 20; i++) {
		struct mad_pkt pkt = packet(i, B + 1);

		pkt.sl = i >= 10;
		pkt.dqpn = i < 10 ? STOPPED : pkt.dqpn;
		assert_int_equal(fabric_inject(w.f, i < 10 ? A : C, 1, &pkt), 0);
	}
	run();
	assert_int_equal(w.by_sl[1], 10);
	w.now += UINT64_C(4096) << 16;
	run();
	assert_int_equal(w.late, 1);
	assert_int_equal(w.done, 20);
}

/* The tables come from a subnet manager's Set. */
static void by_the_sma(void **state)
{
	uint8_t low[SMP_DATA] = { 0, 3 * OUT_BLOCKS, 1, OUT_BLOCKS },
		high[SMP_DATA] = { 0 };

	(void)state;
	assert_int_equal(table_set(&w.f->node[0].port[A], ATTR_VL_ARB, 1u << 16 | B, low),
			 MAD_OK);
	assert_int_equal(table_set(&w.f->node[0].port[A], ATTR_VL_ARB, 3u << 16 | B,
				   high),
			 MAD_OK);
	both_send(1);
	make_room(100);
	assert_int_equal(w.by_sl[0], 75);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(room_for_one, open_three, close_two),
		cmocka_unit_test_setup_teardown(room_for_many, open_three, close_two),
		cmocka_unit_test_setup_teardown(room_in_between, open_three, close_two),
		cmocka_unit_test_setup_teardown(order_of_a_run, open_three, close_two),
		cmocka_unit_test_setup_teardown(no_tables, open_three, close_two),
		cmocka_unit_test_setup_teardown(one_vl, open_three, close_two),
		cmocka_unit_test_setup_teardown(high_priority, open_three, close_two),
		cmocka_unit_test_setup_teardown(limit_of_high_priority, open_three,
						close_two),
		cmocka_unit_test_setup_teardown(by_the_sma, open_three, close_two),
		cmocka_unit_test_setup_teardown(one_program_stops, open_three, close_two),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
