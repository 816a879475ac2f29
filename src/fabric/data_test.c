/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of data from buffer to buffer: nothing is lost where a receiver is slow, and
 * what is too old is dropped and counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/fix.h"
#include "wire/mad.h"

enum {
	PACKETS = 400,
	LEN = 12 + 1024 + 4,
	A = 1,
	B = 2,
	C = 3,
	GROUP = 0xc001,
	STOPPED = 0x8001
};

/* fix_two: node 0 is the switch, 1 and 2 are the adapters; LIDs are one more. */
static struct data {
	struct topo t;
	struct fabric *f;
	uint64_t now;
	unsigned mads[6];
	uint16_t from; /* the last of the MADs */
	unsigned room, taken[6], done, crossed, late;
	bool stopped;  /* the program of that QP takes nothing */
	uint32_t last; /* of the packets that came */
	bool ordered;
	struct fabric_data v[PACKETS];
	uint8_t bytes[LEN];
} w;

static enum fabric_take take(void *ctx, uint32_t node, uint8_t port,
			     const struct mad_pkt *pkt)
{
	uint32_t n = (uint32_t)(pkt->data - w.v);

	(void)ctx;
	(void)port;
	if (pkt->dqpn == STOPPED && w.stopped)
		return w.late ? FABRIC_LOST : FABRIC_FULL;
	if (!w.room)
		return FABRIC_FULL;
	w.room--;
	w.ordered &= !w.taken[node] || n > w.last;
	w.last = n;
	w.taken[node]++;
	return FABRIC_TAKEN;
}

static void late(void *ctx, uint32_t node, uint8_t port, const struct mad_pkt *pkt)
{
	(void)ctx;
	(void)node;
	(void)port;
	w.late += pkt->dqpn == STOPPED;
}

static void done(void *ctx, struct fabric_data *d)
{
	(void)ctx;
	assert_int_equal(d->refs, 0);
	w.done++;
}

static void crosses(void *ctx, uint32_t node, uint8_t port, uint8_t vl,
		    const struct mad_pkt *pkt)
{
	(void)ctx;
	(void)node;
	(void)port;
	(void)vl;
	w.crossed += pkt->data != NULL;
}

static void deliver(void *ctx, uint32_t node, uint8_t port, const struct mad_pkt *pkt)
{
	(void)ctx;
	(void)port;
	w.mads[node]++;
	w.from = pkt->slid;
}

static const struct fabric_ops ops = { deliver, take, late, done, crosses };

static int open_star(const char *text)
{
	char err[TOPO_ERR];
	struct fix x;

	memset(&w, 0, sizeof(w));
	assert_int_equal(topo_parse(&w.t, "t", text, strlen(text), err), 0);
	assert_int_equal(fabric_new(&w.f, &w.t, &ops, NULL), 0);
	x = (struct fix){ .f = w.f, .t = w.t, .at = A };
	fix_manage(&x);
	for (unsigned k = 0; k <= w.f->node[0].ports; k++)
		w.f->node[0].port[k].pi.hoq_life = 20;
	w.f->node[0].si.lifetime = 20;
	w.now = 1000000000;
	w.room = PACKETS;
	w.ordered = true;
	return 0;
}

static int open_two(void **state)
{
	(void)state;
	return open_star(fix_two);
}

static int open_three(void **state)
{
	static const char three[] =
		"Switch 4 \"sw\"\n[1] \"H-a\"[1]\n[2] \"H-b\"[1]\n[3] \"H-c\"[1]\n\n"
		"Ca 1 \"H-a\"\n\nCa 1 \"H-b\"\n\nCa 1 \"H-c\"\n";

	(void)state;
	return open_star(three);
}

static int close_two(void **state)
{
	(void)state;
	fabric_free(w.f);
	topo_free(&w.t);
	return 0;
}

static struct mad_pkt packet(unsigned i, uint16_t dlid)
{
	w.v[i] = (struct fabric_data){ .bytes = w.bytes, .len = LEN };
	return (struct mad_pkt){ .data = &w.v[i],
				 .dlid = dlid,
				 .pkey = PKEY_DEFAULT,
				 .dqpn = 0x4001,
				 .sqpn = 0x4002 };
}

static void inject(unsigned i, uint16_t dlid)
{
	struct mad_pkt pkt = packet(i, dlid);

	assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
}

static void run(void)
{
	fabric_run(w.f, w.now);
}

/* More than what there are buffers for on the way to B. */
static void inject_all(void)
{
	for (unsigned i = 0; i < PACKETS; i++)
		inject(i, B + 1);
	run();
}

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

/* All wait, in three buffers and at the sender; then all come, in order. */
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

/* How long a packet has waited is its own: not since the queue was looked at, nor that of
 * the packet before it. */
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
	w.room = 1; /* the short one leaves no room for another */
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

/* The switch's LifeTimeValue: what has waited in its buffers. */
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

/* OpenSM's VLStallCount: after so many the VL drops all at once, for 8 times as long. */
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
	assert_true(out->count.xmit_discards > 100); /* what was in no buffer of B */
	assert_int_equal(out->count.xmit_discards, w.done);
	w.room = PACKETS;
	fabric_room(w.f, B, 1);
	run();
	assert_int_equal(w.done, PACKETS);
	was = w.taken[B];
	w.now += 8 * life - 1;
	inject(0, B + 1); /* still */
	run();
	assert_int_equal(w.done, PACKETS + 1);
	assert_int_equal(w.taken[B], was);
	w.now++;
	w.ordered = true;
	inject(0, B + 1);
	run();
	assert_int_equal(w.taken[B], was + 1);
}

/* A subnet manager lowers it, and what waits already is not left to wait for ever. */
static void life_is_made_shorter(void **state)
{
	struct fab_port *out = &w.f->node[0].port[2];
	uint64_t life = UINT64_C(4096) << 12;
	const struct port_info pi = { .hoq_life = 12 }; /* 0: all else stays */
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

/* One that goes in between begins the row anew. */
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

/* A program that takes nothing, at the port that dlid is of, makes what is for others
 * wait once, and not for ever. */
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
	fabric_room(w.f, dlid - 1u, 1); /* there is none, though */
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

/* At the sender's own adapter. */
static void one_stops_beside(void **state)
{
	(void)state;
	one_stops(A + 1);
}

/* Another VL has a buffer of its own. */
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
	assert_int_equal(w.crossed, 2); /* it is at B, where there is no room */
}

static void cable_pulled(void **state)
{
	(void)state;
	w.room = 0;
	inject_all();
	assert_int_equal(fabric_cable(w.f, B, 1, false, w.now), 0);
	run();
	/* what is at B stays there; all else was lost at the switch */
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
	assert_int_equal(w.taken[A], 1); /* its own, and not from the switch */
	assert_int_equal(w.done, 1);
	assert_int_equal(w.f->node[B].port[1].count.rcv_multicast, 1);
}

/* One port takes nothing: only its own packet is lost, and the others wait for nothing
 * but that. */
static void a_groups_packet_is_late_at_one_port(void **state)
{
	enum { FULL = 512 / 17 /* blocks */, LIFE = 12 };
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
	w.room = 1; /* the sender's own */
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
	pkt.slid = 77; /* the port puts in its own */
	assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
	run();
	assert_int_equal(w.taken[B], 1);
}

/* A program's message to a QP1 is no way round that. */
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
	w.f->node[A].port[1].pi.mtu = 2; /* 512 */
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

/* The subnet ends with packets in its buffers. */
static void left_behind(void **state)
{
	(void)state;
	w.room = 0;
	inject_all();
	fabric_free(w.f);
	w.f = NULL;
	assert_int_equal(w.done, PACKETS);
}

/* Three switches in a ring, and all go round it the same way: each buffer is full of
 * packets that want the next one. */
static const char ring[] = "Switch 3 \"s0\"\n[1] \"s1\"[2]\n[3] \"H-0\"[1]\n\n"
			   "Switch 3 \"s1\"\n[1] \"s2\"[2]\n[3] \"H-1\"[1]\n\n"
			   "Switch 3 \"s2\"\n[1] \"s0\"[2]\n[3] \"H-2\"[1]\n\n"
			   "Ca 1 \"H-0\"\n\nCa 1 \"H-1\"\n\nCa 1 \"H-2\"\n";

enum { ROUND = 300 };

static void go_round(uint8_t hoq_life)
{
	struct fix x = { .f = w.f, .t = w.t, .at = 3 };

	fix_manage(&x);
	for (uint32_t s = 0; s < 3; s++) {
		w.f->node[s].si.lifetime = 20;
		for (uint32_t h = 0; h < 3; h++)
			w.f->node[s].lft[4 + h] = h == s ? 3 : 1;
		for (unsigned k = 1; k <= 3; k++)
			w.f->node[s].port[k].pi.hoq_life = hoq_life;
	}
	for (unsigned i = 0; i < ROUND; i++) {
		struct mad_pkt pkt = packet(i, (uint16_t)(4 + (i + 2) % 3));

		assert_int_equal(fabric_inject(w.f, 3 + i % 3, 1, &pkt), 0);
	}
	run();
	assert_true(w.done < ROUND);
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

/* Without a lifetime it stands for ever. */
static void credit_loop(void **state)
{
	unsigned was;

	(void)state;
	go_round(20);
	was = w.done;
	assert_int_equal(fabric_next(w.f), UINT64_MAX);
	w.now += UINT64_C(1000000000000);
	run();
	assert_int_equal(w.done, was);
}

static void credit_loop_that_loses(void **state)
{
	uint64_t lost = 0;

	(void)state;
	go_round(16);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(credit_loop, open_ring, close_two),
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
		cmocka_unit_test_setup_teardown(stalled, open_two, close_two),
		cmocka_unit_test_setup_teardown(across_the_switch, open_two, close_two),
		cmocka_unit_test_setup_teardown(to_itself, open_two, close_two),
		cmocka_unit_test_setup_teardown(slow_receiver, open_two, close_two),
		cmocka_unit_test_setup_teardown(too_old, open_two, close_two),
		cmocka_unit_test_setup_teardown(one_program_stops, open_two, close_two),
		cmocka_unit_test_setup_teardown(one_stops_beside, open_two, close_two),
		cmocka_unit_test_setup_teardown(other_vl, open_two, close_two),
		cmocka_unit_test_setup_teardown(cable_pulled, open_two, close_two),
		cmocka_unit_test_setup_teardown(to_a_group, open_two, close_two),
		cmocka_unit_test_setup_teardown(a_groups_packet_is_late_at_one_port,
						open_three, close_two),
		cmocka_unit_test_setup_teardown(not_from_here, open_two, close_two),
		cmocka_unit_test_setup_teardown(nor_as_a_mad, open_two, close_two),
		cmocka_unit_test_setup_teardown(too_long, open_two, close_two),
		cmocka_unit_test_setup_teardown(partition, open_two, close_two),
		cmocka_unit_test_setup_teardown(left_behind, open_two, close_two),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
