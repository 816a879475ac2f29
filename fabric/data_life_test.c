/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of data that wait: each one for as long as its port and its switch allow;
 * packets that are too old are dropped and counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fabric/data_fix.h"

static void too_old(void **state)
{
	uint64_t life = UINT64_C(4096) << 12;

	(void)state;
	w.f->node[0].port[2].pi.hoq_life = 12;
	w.room = 0;
	inject_all();
	assert_int_equal(w.done, 0);
	assert_int_equal(fabric_next(w.f), w.now + life);
	w.now += life - 1;
	run();
	assert_int_equal(w.f->node[0].port[2].count.xmit_discards, 0);
	w.now++;
	run();
	assert_int_equal(w.f->node[0].port[2].count.xmit_discards, 1);
	assert_int_equal(w.f->node[0].port[2].detail.xmit[XMIT_HOQ_LIFE], 1);
	assert_int_equal(w.done, 1);
}

/* The time of each packet's wait is its own: it does not begin when the queue was last
 * looked at, nor with the packet before it. */
static void each_waits_for_itself(void **state)
{
	enum { SHORT = 12 + 4 };
	uint64_t life = UINT64_C(4096) << 12, begin = w.now;
	struct mad_pkt pkt = packet(0, B + 1);

	(void)state;
	w.f->node[0].port[2].pi.hoq_life = 12;
	w.room = 0;
	w.v[0].len = SHORT;
	assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
	for (unsigned i = 1; i < PACKETS; i++)
		inject(i, B + 1);
	run();
	w.now = begin + life / 2;
	w.room = 1; /* after the short packet there is no room for another one */
	fabric_room(w.f, B, 1);
	run();
	assert_int_equal(w.taken[B], 1);
	assert_int_equal(fabric_next(w.f), begin + life);
	w.room = 1;
	fabric_room(w.f, B, 1);
	run();
	assert_int_equal(w.taken[B], 2);
	assert_int_equal(fabric_next(w.f), w.now + life);
}

/* The switch's LifeTimeValue limits how long a packet waits in the switch's buffers. */
static void too_long_in_a_switch(void **state)
{
	const struct port_detail *d = &w.f->node[0].port[2].detail;

	(void)state;
	w.f->node[0].si.lifetime = 10;
	w.room = 0;
	inject_all();
	w.now += UINT64_C(4096) << 10;
	w.room = 1;
	fabric_room(w.f, B, 1);
	run();
	assert_int_equal(d->xmit[XMIT_LIFETIME], 0);
	w.now++;
	w.room = PACKETS;
	fabric_room(w.f, B, 1);
	run();
	assert_int_equal(w.done, PACKETS);
	assert_true(d->xmit[XMIT_LIFETIME] > 0);
	assert_int_equal(w.taken[B] + d->xmit[XMIT_LIFETIME], PACKETS);
}

/* VLStallCount, as OpenSM sets it: after so many packets that were dropped in a row, the
 * VL drops everything for 8 times the lifetime. */
static void stalled(void **state)
{
	struct fab_port *out = &w.f->node[0].port[2];
	uint64_t life = UINT64_C(4096) << 12;
	unsigned was;

	(void)state;
	out->pi.hoq_life = 12;
	out->pi.vl_stall_count = 2;
	w.room = 0;
	inject_all();
	for (unsigned i = 1; i <= 2; i++) {
		assert_int_equal(out->count.xmit_discards, i - 1);
		w.now += life;
		run();
	}
	/* All packets that were not yet in a buffer of B. */
	assert_true(out->count.xmit_discards > 100);
	assert_int_equal(out->count.xmit_discards, w.done);
	w.room = PACKETS;
	fabric_room(w.f, B, 1);
	run();
	assert_int_equal(w.done, PACKETS);
	was = w.taken[B];
	w.now += 8 * life - 1;
	inject(0, B + 1); /* the VL is still stalled */
	run();
	assert_int_equal(w.done, PACKETS + 1);
	assert_int_equal(w.taken[B], was);
	w.now++;
	w.ordered = true;
	inject(0, B + 1);
	run();
	assert_int_equal(w.taken[B], was + 1);
}

/* A subnet manager shortens the lifetime: packets that wait already get a deadline,
 * too. */
static void life_is_made_shorter(void **state)
{
	struct fab_port *out = &w.f->node[0].port[2];
	uint64_t life = UINT64_C(4096) << 12;
	/* Fields of 0 are left as they are. */
	const struct port_info pi = { .hoq_life = 12 };
	uint8_t data[SMP_DATA] = { 0 };

	(void)state;
	w.room = 0;
	inject_all();
	attr_put(&attr_port_info, data, &pi);
	assert_int_equal(port_info_set(&w.f->node[0].port[1], 2, data), MAD_OK);
	assert_int_equal(out->pi.hoq_life, 12);
	assert_int_equal(fabric_next(w.f), w.now + life);
	w.now += life;
	run();
	assert_int_equal(out->detail.xmit[XMIT_HOQ_LIFE], 1);
}

/* A packet that is sent in between begins the count anew. */
static void lost_but_not_in_a_row(void **state)
{
	struct fab_port *out = &w.f->node[0].port[2];
	uint64_t life = UINT64_C(4096) << 12;

	(void)state;
	out->pi.hoq_life = 12;
	out->pi.vl_stall_count = 2;
	w.room = 0;
	inject_all();
	for (unsigned i = 1; i <= 5; i++) {
		w.now += life;
		run();
		assert_int_equal(out->count.xmit_discards, i);
		w.room = 1;
		fabric_room(w.f, B, 1);
		run();
		assert_int_equal(w.taken[B], i);
	}
}

/* A multicast packet cannot leave by one port: only that port's copy is dropped, and the
 * other ports' copies wait only until then. */
static void a_groups_packet_is_late_at_one_port(void **state)
{
	enum { FULL = 512 / 17 /* 512 blocks of credit; a packet takes 17 */, LIFE = 12 };
	const struct fab_port *out = w.f->node[0].port;
	uint64_t life = UINT64_C(4096) << LIFE;
	unsigned i = 0;

	(void)state;
	w.f->node[0].port[B].pi.hoq_life = w.f->node[0].port[C].pi.hoq_life = LIFE;
	w.f->node[0].mft[1] = 1u << A | 1u << B | 1u << C;
	w.room = 0;
	while (i < FULL)
		inject(i++, B + 1);
	while (i < 2 * FULL)
		inject(i++, C + 1);
	run();
	w.room = 1; /* room for the sender's own copy */
	inject(i, GROUP);
	run();
	assert_int_equal(w.taken[A], 1);
	assert_int_equal(fabric_next(w.f), w.now + life);
	w.now += life;
	run();
	assert_int_equal(out[B].count.xmit_discards, 1);
	assert_int_equal(fabric_next(w.f), w.now + life);
	w.room = FULL + 1;
	fabric_room(w.f, C, 1);
	run();
	assert_int_equal(w.taken[C], FULL + 1);
	assert_int_equal(out[C].count.xmit_discards, 0);
	assert_int_equal(w.f->node[C].port[1].count.rcv_multicast, 1);
	assert_int_equal(w.done, FULL + 1);
}

/* Three switches in a ring, through which all packets go in the same direction: each
 * buffer is full of packets for the next one, a credit loop. */
static const char ring[] = "Switch 3 \"s0\"\n[1] \"s1\"[2]\n[3] \"H-0\"[1]\n\n"
			   "Switch 3 \"s1\"\n[1] \"s2\"[2]\n[3] \"H-1\"[1]\n\n"
			   "Switch 3 \"s2\"\n[1] \"s0\"[2]\n[3] \"H-2\"[1]\n\n"
			   "Ca 1 \"H-0\"\n\nCa 1 \"H-1\"\n\nCa 1 \"H-2\"\n";

enum { ROUND = 300 };

/* round: all packets go round the ring in one direction; otherwise one link is not
 * used. */
static void all_send(uint8_t hoq_life, bool round)
{
	struct fix x = { .f = w.f, .t = w.t, .at = 3 };

	fix_manage(&x);
	for (uint32_t s = 0; s < 3; s++) {
		w.f->node[s].si.lifetime = 20;
		for (uint32_t h = 0; h < 3; h++)
			w.f->node[s].lft[4 + h] = h == s ? 3 : h > s || round ? 1 : 2;
		for (unsigned k = 1; k <= 3; k++)
			w.f->node[s].port[k].pi.hoq_life = hoq_life;
	}
	for (unsigned i = 0; i < ROUND; i++) {
		struct mad_pkt pkt = packet(i, (uint16_t)(4 + (i + 2) % 3));

		assert_int_equal(fabric_inject(w.f, 3 + i % 3, 1, &pkt), 0);
	}
	run();
}

static int open_ring(void **state)
{
	char err[TOPO_ERR];

	(void)state;
	memset(&w, 0, sizeof(w));
	assert_int_equal(topo_parse(&w.t, "t", ring, strlen(ring), err), 0);
	assert_int_equal(fabric_new(&w.f, &w.t, &ops, NULL), 0);
	w.now = 1000000000;
	w.room = PACKETS;
	return 0;
}

/* Without a lifetime limit the credit loop lasts for ever. */
static void credit_loop(void **state)
{
	unsigned was;

	(void)state;
	all_send(20, true);
	was = w.done;
	assert_true(was < ROUND);
	assert_int_equal(fabric_next(w.f), UINT64_MAX);
	w.now += UINT64_C(1000000000000);
	run();
	assert_int_equal(w.done, was);
}

static void credit_loop_that_loses(void **state)
{
	uint64_t lost = 0;

	(void)state;
	all_send(16, true);
	assert_true(w.done < ROUND);
	for (unsigned i = 0; i < ROUND && fabric_next(w.f) != UINT64_MAX; i++) {
		w.now = fabric_next(w.f);
		run();
	}
	assert_int_equal(w.done, ROUND);
	for (uint32_t s = 0; s < 3; s++)
		lost += w.f->node[s].port[1].detail.xmit[XMIT_HOQ_LIFE];
	assert_true(lost > 0);
	assert_int_equal(w.taken[3] + w.taken[4] + w.taken[5] + lost, ROUND);
}

/* The same packets without the loop all arrive, without any time passing. */
static void no_credit_loop(void **state)
{
	(void)state;
	all_send(20, false);
	assert_int_equal(w.done, ROUND);
	assert_int_equal(w.taken[3] + w.taken[4] + w.taken[5], ROUND);
}

static uint64_t waited(uint32_t node, uint8_t port)
{
	struct fabric_port_view v;

	run();
	assert_true(fabric_port(w.f, node, port, &v));
	return v.count->xmit_wait;
}

/* PortXmitWait counts the ticks in which the port had a packet and sent none. A VL
 * without credits waits while another VL sends; the port then does not. */
static void waits_for_credits(void **state)
{
	const struct port_detail *d = &w.f->node[0].port[2].detail;
	struct mad_pkt pkt = packet(PACKETS - 1, B + 1);

	(void)state;
	pkt.sl = 3;
	w.room = 0;
	for (unsigned i = 0; i + 1 < PACKETS; i++)
		inject(i, B + 1);
	assert_int_equal(waited(0, 2), 0);
	w.now += 6 * PMA_TICK - 1;
	assert_int_equal(waited(0, 2), 5);
	assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
	assert_int_equal(waited(0, 2), 5);
	w.now++;
	assert_int_equal(waited(0, 2), 5);
	assert_int_equal(d->xmit_wait[0], 6);
	w.now += 10 * PMA_TICK;
	assert_int_equal(waited(A, 1), 15);
	w.room = PACKETS;
	fabric_room(w.f, B, 1);
	assert_int_equal(waited(0, 2), 15);
	assert_int_equal(w.taken[B], PACKETS);
	w.now += 10 * PMA_TICK;
	assert_int_equal(waited(0, 2), 15);
	assert_int_equal(d->xmit_wait[0], 16);
	assert_int_equal(d->xmit_wait[3], 0);
	assert_int_equal(waited(B, 1), 0);
}

/* Packets for a link that goes down stop waiting. */
static void waits_until_the_link_is_down(void **state)
{
	(void)state;
	w.room = 0;
	inject_all();
	w.now += 3 * PMA_TICK;
	assert_int_equal(fabric_cable(w.f, B, 1, false, w.now), 0);
	assert_int_equal(waited(0, 2), 3);
	w.now += 3 * PMA_TICK;
	assert_int_equal(waited(0, 2), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(credit_loop, open_ring, close_two),
		cmocka_unit_test_setup_teardown(no_credit_loop, open_ring, close_two),
		cmocka_unit_test_setup_teardown(credit_loop_that_loses, open_ring,
						close_two),
		cmocka_unit_test_setup_teardown(each_waits_for_itself, open_two,
						close_two),
		cmocka_unit_test_setup_teardown(too_long_in_a_switch, open_two,
						close_two),
		cmocka_unit_test_setup_teardown(lost_but_not_in_a_row, open_two,
						close_two),
		cmocka_unit_test_setup_teardown(life_is_made_shorter, open_two,
						close_two),
		cmocka_unit_test_setup_teardown(waits_for_credits, open_two, close_two),
		cmocka_unit_test_setup_teardown(waits_until_the_link_is_down, open_two,
						close_two),
		cmocka_unit_test_setup_teardown(stalled, open_two, close_two),
		cmocka_unit_test_setup_teardown(too_old, open_two, close_two),
		cmocka_unit_test_setup_teardown(a_groups_packet_is_late_at_one_port,
						open_three, close_two),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
