/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of data from buffer to buffer: a slow receiver loses nothing; packets that may
 * not pass are dropped and counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fabric/data_fix.h"

static void across_the_switch(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10; i++)
		inject(i, B + 1);
	run();
	assert_int_equal(w.taken[B], 10);
	assert_int_equal(w.done, 10);
	assert_int_equal(w.crossed, 20);
	assert_true(w.ordered);
	assert_int_equal(w.f->node[B].port[1].count.rcv_pkts, 10);
	assert_int_equal(w.f->node[A].port[1].count.xmit_data, 10 * (LEN + 8) / 4);
}

static void to_itself(void **state)
{
	(void)state;
	inject(0, A + 1);
	run();
	assert_int_equal(w.taken[A], 1);
	assert_int_equal(w.crossed, 0);
}

static const uint64_t life_up = UINT64_C(4096) << 16;

/* All packets wait, in three buffers and at the sender; then all arrive, in order. */
static void slow_receiver(void **state)
{
	(void)state;
	w.room = 3;
	inject_all();
	assert_int_equal(w.taken[B], 3);
	assert_int_equal(w.done, 3);
	assert_true(w.crossed < PACKETS);
	w.now += life_up - 1;
	run();
	assert_int_equal(w.done, 3);
	while (w.taken[B] < PACKETS) {
		unsigned was = w.taken[B];

		w.room = 7;
		fabric_room(w.f, B, 1);
		run();
		assert_true(w.taken[B] > was);
	}
	assert_int_equal(w.done, PACKETS);
	assert_true(w.ordered);
	assert_int_equal(w.f->node[0].port[2].count.xmit_discards, 0);
	assert_int_equal(fabric_next(w.f), UINT64_MAX);
}

/* A program at the port of dlid takes nothing. Packets for others wait behind its
 * packets for the lifetime once, and not for ever. */
static void one_stops(uint16_t dlid)
{
	const struct fab_port *p = w.f->node[dlid - 1].port + 1;

	w.stopped = true;
	for (unsigned i = 0; i < 40; i++) {
		struct mad_pkt pkt = packet(i, i % 2 ? B + 1 : dlid);

		pkt.dqpn = i % 2 ? pkt.dqpn : STOPPED;
		assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
	}
	run();
	assert_int_equal(w.done, 0);
	assert_int_equal(fabric_next(w.f), w.now + life_up);
	w.now += life_up - 1;
	run();
	assert_int_equal(w.done, 0);
	w.now++;
	/* The fabric is told of room, but there is none. */
	fabric_room(w.f, dlid - 1u, 1);
	run();
	assert_int_equal(w.late, 1);
	assert_int_equal(w.taken[B], 20);
	assert_int_equal(w.done, 40);
	assert_int_equal(p->count.rcv_errors, 20);
	assert_int_equal(p->detail.rcv[RCV_OVERRUN], 20);
	assert_int_equal(fabric_next(w.f), UINT64_MAX);
}

static void one_program_stops(void **state)
{
	(void)state;
	one_stops(B + 1);
}

/* The stopped program is at the sender's own adapter. */
static void one_stops_beside(void **state)
{
	(void)state;
	one_stops(A + 1);
}

/* Each VL has buffers of its own. */
static void other_vl(void **state)
{
	struct mad_pkt pkt;

	(void)state;
	w.room = 0;
	for (unsigned i = 0; i + 1 < PACKETS; i++)
		inject(i, B + 1);
	run();
	w.crossed = 0;
	pkt = packet(PACKETS - 1, B + 1);
	pkt.sl = 3;
	assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
	run();
	/* The packet is at B, whose program has no room. */
	assert_int_equal(w.crossed, 2);
}

/* A MAD of QP1 needs credits of its VL and waits behind the packets before it; a MAD of
 * QP0 has VL15, and does not. */
static void qp1_waits(void **state)
{
	struct mad_pkt pkt = {
		.dlid = B + 1, .pkey = PKEY_DEFAULT, .sqpn = QP_GSI, .dqpn = QP_GSI
	};
	struct mad_hdr h = { .base_version = 1, .class = MAD_SA, .class_version = 2 };
	struct mad_pkt smp = { .dlid = B + 1 };

	(void)state;
	memcpy(pkt.mad, &h, sizeof(h));
	h.class = MAD_SM_LID;
	h.method = METHOD_TRAP;
	memcpy(smp.mad, &h, sizeof(h));
	w.room = 0;
	inject_all();
	assert_int_equal(fabric_send(w.f, A, 1, &pkt), 0);
	assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
	run();
	assert_int_equal(w.mads[B], 0);
	assert_int_equal(fabric_send(w.f, A, 1, &smp), 0);
	run();
	assert_int_equal(w.mads[B], 1);
	pkt.sl = 3; /* SL 3 has another VL */
	assert_int_equal(fabric_send(w.f, A, 1, &pkt), 0);
	run();
	assert_int_equal(w.mads[B], 2);
	w.room = PACKETS;
	fabric_room(w.f, B, 1);
	run();
	assert_int_equal(w.taken[B], PACKETS);
	assert_int_equal(w.mads[B], 4);
}

/* The number of MADs that QP1 has waiting for a VL without credits is limited. */
static void qp1_is_full(void **state)
{
	enum { MANY = 4096 };
	struct mad_pkt pkt = {
		.dlid = B + 1, .pkey = PKEY_DEFAULT, .sqpn = QP_GSI, .dqpn = QP_GSI
	};
	const struct port_counters_ext *n = &w.f->node[A].port[1].count;

	(void)state;
	w.room = 0;
	inject_all();
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
	run();
	assert_int_equal(n->xmit_discards, 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
		run();
	}
	assert_int_equal(n->xmit_discards, 3);
	w.room = PACKETS;
	fabric_room(w.f, B, 1);
	run();
	assert_int_equal(w.mads[B], MANY);
	assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
	run();
	assert_int_equal(w.mads[B], MANY + 1);
	assert_int_equal(n->xmit_discards, 3);
}

static void cable_pulled(void **state)
{
	(void)state;
	w.room = 0;
	inject_all();
	assert_int_equal(fabric_cable(w.f, B, 1, false, w.now), 0);
	run();
	/* packets at B stay there; all others were dropped at the switch */
	assert_true(w.done > 0 && w.done < PACKETS);
	assert_int_equal(w.f->node[0].port[2].detail.xmit[XMIT_INACTIVE], w.done);
	w.room = PACKETS;
	fabric_room(w.f, B, 1);
	run();
	assert_int_equal(w.done, PACKETS);
}

static void to_a_group(void **state)
{
	(void)state;
	w.f->node[0].mft[1] = 1u << 1 | 1u << 2;
	inject(0, GROUP);
	run();
	assert_int_equal(w.taken[B], 1);
	/* The sender's own copy, which does not come back from the switch. */
	assert_int_equal(w.taken[A], 1);
	assert_int_equal(w.done, 1);
	assert_int_equal(w.f->node[B].port[1].count.rcv_multicast, 1);
}

static void not_from_here(void **state)
{
	struct mad_pkt pkt = packet(0, B + 1);

	(void)state;
	pkt.pkey = 0x8001;
	assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
	pkt = packet(1, B + 1);
	pkt.grh = true;
	assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
	run();
	assert_int_equal(w.taken[B], 0);
	assert_int_equal(w.done, 2);
	assert_int_equal(w.f->node[A].port[1].count.xmit_constraint, 2);
	pkt = packet(2, B + 1);
	pkt.slid = 77; /* the port fills in its own LID */
	assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
	run();
	assert_int_equal(w.taken[B], 1);
}

/* A MAD that a program sends to QP1 is checked in the same way. */
static void nor_as_a_mad(void **state)
{
	struct mad_pkt pkt = { .dlid = B + 1,
			       .slid = 77,
			       .pkey = PKEY_DEFAULT,
			       .sqpn = QP_GSI,
			       .dqpn = QP_GSI };
	const struct port_counters_ext *n = &w.f->node[A].port[1].count;

	(void)state;
	assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
	run();
	assert_int_equal(w.mads[B], 1);
	assert_int_equal(w.from, A + 1);
	pkt.pkey = 0x8001;
	assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
	pkt.pkey = PKEY_DEFAULT;
	pkt.grh = true;
	pkt.sgid[0] = 1;
	assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
	assert_int_equal(n->xmit_constraint, 2);
	pkt.grh = false;
	pkt.dlid = LID_PERMISSIVE;
	assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
	assert_int_equal(n->xmit_discards, 1);
	run();
	assert_int_equal(w.mads[B], 1);
}

static void too_long(void **state)
{
	struct mad_pkt pkt = packet(0, B + 1);

	(void)state;
	w.f->node[A].port[1].pi.mtu = 2; /* MTU 512 */
	assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
	run();
	assert_int_equal(w.done, 1);
	assert_int_equal(w.f->node[A].port[1].detail.xmit[XMIT_MTU], 1);
}

static void partition(void **state)
{
	(void)state;
	w.f->node[B].port[1].pkey[0] = 0x8001;
	inject(0, B + 1);
	run();
	assert_int_equal(w.taken[B], 0);
	assert_int_equal(w.f->node[B].port[1].pi.pkey_violations, 1);
}

/* The fabric is freed with packets in its buffers. */
static void left_behind(void **state)
{
	(void)state;
	w.room = 0;
	inject_all();
	fabric_free(w.f);
	w.f = NULL;
	assert_int_equal(w.done, PACKETS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(across_the_switch, open_two, close_two),
		cmocka_unit_test_setup_teardown(to_itself, open_two, close_two),
		cmocka_unit_test_setup_teardown(qp1_waits, open_two, close_two),
		cmocka_unit_test_setup_teardown(qp1_is_full, open_two, close_two),
		cmocka_unit_test_setup_teardown(slow_receiver, open_two, close_two),
		cmocka_unit_test_setup_teardown(one_program_stops, open_two, close_two),
		cmocka_unit_test_setup_teardown(one_stops_beside, open_two, close_two),
		cmocka_unit_test_setup_teardown(other_vl, open_two, close_two),
		cmocka_unit_test_setup_teardown(cable_pulled, open_two, close_two),
		cmocka_unit_test_setup_teardown(to_a_group, open_two, close_two),
		cmocka_unit_test_setup_teardown(not_from_here, open_two, close_two),
		cmocka_unit_test_setup_teardown(nor_as_a_mad, open_two, close_two),
		cmocka_unit_test_setup_teardown(too_long, open_two, close_two),
		cmocka_unit_test_setup_teardown(partition, open_two, close_two),
		cmocka_unit_test_setup_teardown(left_behind, open_two, close_two),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
