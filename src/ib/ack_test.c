/* SPDX-License-Identifier: BSD-2-Clause */
/* An ACK waits for the program's answer if the program nearly always gave one. */
#include "ib/fix.h"

enum { LEN = 64, PROOF = 33, AGAIN = 12, TRIES = 4, US = 1000 };

static void say(struct fix *f, int side)
{
	struct ibv_sge in = sim_sge(f->mr[!side], 4096, LEN);
	struct ibv_sge out = sim_sge(f->mr[side], 0, LEN);
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.opcode = IBV_WR_SEND,
		.sg_list = &out,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};

	sim_recv(f->p.qp[!side], 2, &in, 1);
	sim_send(f->p.qp[side], &wr);
}

/* Polls until that side has a completion of this opcode; ignores others. */
static void wait_for(struct fix *f, int side, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	do {
		assert_true(sim_wait(f->s, f->p.cq[side], SEC, &wc));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	} while (wc.opcode != opcode);
}

static void receive(struct fix *f, int side)
{
	wait_for(f, side, IBV_WC_RECV);
}

static void sent(struct fix *f, int side)
{
	wait_for(f, side, IBV_WC_SEND);
}

/* That side's request completes within 30 us. */
static void sent_soon(struct fix *f, int side)
{
	uint64_t start = f->s->now;

	sent(f, side);
	assert_in_range(f->s->now - start, 0, 30 * US);
}

/* A asks and B answers, n times. */
static void ping_pong(struct fix *f, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		say(f, 0);
		receive(f, 1);
		say(f, 1);
		receive(f, 0);
	}
	sent(f, 1);
	sim_run(f->s, 1000 * US);
	for (int i = 0; i < 2; i++)
		while (cq_poll(f->p.cq[i], 1, &(struct ibv_wc){ 0 }) > 0)
			;
	f->n = 0;
}

/* A pair whose B has proved that it answers promptly, so that its ACKs wait. */
static struct fix *proved(void)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);

	ping_pong(f, PROOF);
	return f;
}

static void goes_at_once_until_it_is_proved(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);

	(void)state;
	ping_pong(f, PROOF - 1);
	say(f, 0);
	receive(f, 1);
	sent_soon(f, 0);
	fix_close(f);
}

/* Late answers do not prove it. */
static void late_answers_prove_nothing(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);

	(void)state;
	for (unsigned i = 0; i < 2 * PROOF; i++) {
		say(f, 0);
		receive(f, 1);
		sim_run(f->s, 120 * US);
		say(f, 1);
		receive(f, 0);
	}
	say(f, 0);
	sent_soon(f, 0);
	fix_close(f);
}

static void waits_for_the_answer(void **state)
{
	struct fix *f = proved();

	(void)state;
	say(f, 0);
	receive(f, 1);
	sim_run(f->s, 150 * US);
	fix_no_wc(f, 0);
	assert_int_equal(fix_count(f, 1, "ACK"), 0);
	say(f, 1);
	sim_run(f->s, 30 * US);
	assert_int_equal(fix_count(f, 1, "ACK"), 1);
	fix_close(f);
}

/* An ACK that got no answer goes alone, in time; then B must prove itself again. */
static void not_for_ever(void **state)
{
	struct fix *f = proved();
	uint64_t start;

	(void)state;
	start = f->s->now;
	say(f, 0);
	receive(f, 1);
	sent(f, 0);
	assert_in_range(f->s->now - start, 200 * US, 250 * US);
	say(f, 1);
	receive(f, 0);
	say(f, 0);
	receive(f, 1);
	sent_soon(f, 0);
	say(f, 1);
	receive(f, 0);
	ping_pong(f, AGAIN);
	say(f, 0);
	receive(f, 1);
	sim_run(f->s, 150 * US);
	fix_no_wc(f, 0);
	fix_close(f);
}

/* A asks n times; every part-th answer takes ns.  Returns how many of A's completions
 * took longer than 100 us. */
static unsigned dawdle(struct fix *f, unsigned n, unsigned part, uint64_t ns)
{
	unsigned late = 0;

	for (unsigned i = 1; i <= n; i++) {
		uint64_t start = f->s->now;

		say(f, 0);
		receive(f, 1);
		if (i % part == 0) {
			sent(f, 0);
			late += f->s->now - start > 100 * US;
			sim_run(f->s, ns);
		}
		say(f, 1);
		receive(f, 0);
	}
	ping_pong(f, 1);
	return late;
}

/* The ACK still waits for a program that is rarely late, but not for one that often
 * is. */
static void a_few_late_ones_are_forgiven(void **state)
{
	struct fix *f = proved();

	(void)state;
	ping_pong(f, PROOF);
	assert_int_equal(dawdle(f, 500, 50, 300 * US), 10);
	assert_in_range(dawdle(f, 500, 4, 300 * US), 0, 70);
	fix_close(f);
}

/* The ACK does not wait for a program that has become too slow. */
static void slow_ones_are_not(void **state)
{
	struct fix *f = proved();

	(void)state;
	ping_pong(f, PROOF);
	dawdle(f, PROOF, 1, 150 * US);
	say(f, 0);
	sent_soon(f, 0);
	fix_close(f);
}

/* Again and again, five messages that are answered and one that never is. */
static void one_way_now_and_then(void **state)
{
	struct fix *f = proved();
	unsigned late = 0;

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		uint64_t start;

		ping_pong(f, 5);
		start = f->s->now;
		say(f, 0);
		sent(f, 0);
		late += f->s->now - start > 100 * US;
		receive(f, 1);
	}
	assert_in_range(late, 0, 50 / 4);
	fix_close(f);
}

/* The ACK does not wait if the next message comes first. */
static void not_in_a_stream(void **state)
{
	struct fix *f = proved();

	(void)state;
	say(f, 0);
	say(f, 0);
	sent_soon(f, 0);
	sent_soon(f, 0);
	fix_close(f);
}

/* A NAK does not wait for an answer. */
static void a_gap_is_told_at_once(void **state)
{
	struct fix *f = proved();

	(void)state;
	say(f, 0);
	receive(f, 1);
	fix_lose(f, 0, "SEND_ONLY", 1);
	say(f, 0); /* lost */
	say(f, 0);
	sent_soon(f, 0);
	sent_soon(f, 0);
	sent_soon(f, 0);
	fix_close(f);
}

/* The program is about to end. */
static void not_in_a_hurry(void **state)
{
	struct fix *f = proved();
	struct core *core = &f->s->node[1].core;

	(void)state;
	say(f, 0);
	receive(f, 1);
	core->round.hurry = true;
	due_add(core, f->p.qp[1]);
	sent_soon(f, 0);
	core->round.hurry = false;
	fix_close(f);
}

/* Which packet goes first when B answers n times at once. */
static const char *order(struct fix *f, unsigned n)
{
	f->n = 0;
	say(f, 0);
	receive(f, 1);
	for (unsigned i = 0; i < n; i++)
		say(f, 1);
	sim_run(f->s, 30 * US);
	for (unsigned i = 0; i < f->n; i++)
		if (f->log[i].side == 1)
			return fix_name(&f->log[i]);
	return "";
}

/* The ACK goes behind the answer a few times, as a trial of the peer; then before it. */
static void a_few_go_last(void **state)
{
	struct fix *f = proved();

	(void)state;
	for (int i = 0; i < TRIES; i++)
		assert_string_equal(order(f, 1), "SEND_ONLY");
	assert_string_equal(order(f, 1), "ACK");
	ib_qp(f->p.qp[1])->rsp.ack.understood = true;
	assert_string_equal(order(f, 1), "SEND_ONLY");
	/* With two answers the ACK would not end their run */
	assert_string_equal(order(f, 2), "ACK");
	fix_close(f);
}

/* Makes a datagram to A as B would send it, at place seg of its run. */
static void make(const struct fix *f, const struct ib_fields *p, uint32_t payload,
		 uint16_t seg, struct dgram *d, struct fix_raw *r)
{
	memset(r, 0, sizeof(*r));
	fix_address(f, 1, ib_build(r->buf, p) + payload, r);
	*d = r->d;
	d->seg = seg;
}

/* An ACK cut from the end of its answer's run is taken in first. */
static void a_belated_one_is_taken_first(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct core *core = &f->s->node[0].core;
	struct ibv_sge in = sim_sge(f->mr[0], 0, 64);
	struct ib_fields p = { .opcode = ib_opcode(IB_RC, IB_SEND, IB_ONLY, IB_NONE),
			       .pkey = 0xffff,
			       .dest_qp = f->p.qp[0]->qpn };
	struct fix_raw raw[2];
	struct dgram d[2];

	(void)state;
	fix_lose(f, 1, NULL, 0);
	/* seg 0: two packets that met by chance */
	for (uint16_t seg = 0; seg < 2; seg++) {
		fix_post(f, IBV_WR_RDMA_WRITE, 7, 0, 10, 0);
		sim_recv(f->p.qp[0], 8, &in, 1);
		sim_run(f->s, 30 * US);
		fix_no_wc(f, 0);
		p.opcode = ib_opcode(IB_RC, IB_SEND, IB_ONLY, IB_NONE);
		p.psn = seg;
		make(f, &p, 4, 0, &d[0], &raw[0]);
		p.opcode = ib_opcode(IB_RC, IB_ACK, IB_ONLY, IB_NONE);
		p.syndrome = aeth_syndrome(AETH_ACK, AETH_NO_CREDITS);
		make(f, &p, 0, seg, &d[1], &raw[1]);
		turn_take(&core->turn);
		ib_input_all(core, d, 2, f->s->now);
		turn_give(&core->turn);
		fix_wc(f, 0, seg ? 7 : 8, IBV_WC_SUCCESS);
		fix_wc(f, 0, seg ? 8 : 7, IBV_WC_SUCCESS);
		assert_int_equal(ib_qp(f->p.qp[0])->rsp.ack.understood, seg);
	}
	fix_close(f);
}

/* The ACK behind a READ response keeps its place. */
static void behind_a_response_it_stays(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct core *core = &f->s->node[0].core;
	struct ib_fields p = { .opcode = ib_opcode(IB_RC, IB_READ_RESP, IB_ONLY, IB_NONE),
			       .pkey = 0xffff,
			       .dest_qp = f->p.qp[0]->qpn,
			       .msn = 1 };
	struct fix_raw raw[2];
	struct dgram d[2];

	(void)state;
	fix_lose(f, 1, NULL, 0);
	fix_post(f, IBV_WR_RDMA_READ, 7, 0, 4, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 8, 0, 10, 0);
	sim_run(f->s, 30 * US);
	p.syndrome = aeth_syndrome(AETH_ACK, AETH_NO_CREDITS);
	make(f, &p, 4, 0, &d[0], &raw[0]);
	p.opcode = ib_opcode(IB_RC, IB_ACK, IB_ONLY, IB_NONE);
	p.psn = 1;
	p.msn = 2;
	make(f, &p, 0, 1, &d[1], &raw[1]);
	turn_take(&core->turn);
	ib_input_all(core, d, 2, f->s->now);
	turn_give(&core->turn);
	fix_wc(f, 0, 7, IBV_WC_SUCCESS);
	fix_wc(f, 0, 8, IBV_WC_SUCCESS);
	assert_int_equal(ib_counter(core, IB_TX_RETRANSMIT), 0);
	assert_false(ib_qp(f->p.qp[0])->rsp.ack.understood);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(goes_at_once_until_it_is_proved),
		cmocka_unit_test(late_answers_prove_nothing),
		cmocka_unit_test(waits_for_the_answer),
		cmocka_unit_test(not_for_ever),
		cmocka_unit_test(a_few_late_ones_are_forgiven),
		cmocka_unit_test(slow_ones_are_not),
		cmocka_unit_test(one_way_now_and_then),
		cmocka_unit_test(not_in_a_stream),
		cmocka_unit_test(a_gap_is_told_at_once),
		cmocka_unit_test(not_in_a_hurry),
		cmocka_unit_test(a_few_go_last),
		cmocka_unit_test(a_belated_one_is_taken_first),
		cmocka_unit_test(behind_a_response_it_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
