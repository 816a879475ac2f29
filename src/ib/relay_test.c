/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC between processes, as the peer, the program and other processes see it. */
#include "ib/relay_fix.h"

/* SENDs into the upper half, WRITEs, READs and atomics: each once and in order. */
static void all_kinds(struct lab *x, int rounds)
{
	uint64_t *word = (uint64_t *)(void *)(x->mem + 200000);

	*word = 0;
	for (int i = 0; i < rounds; i++) {
		const uint64_t id = 10 * (uint64_t)i;
		struct ibv_wc wc;

		receive(x, id, 100000, 6000);
		post(x, IBV_WR_SEND, id + 1, (size_t)i * 10, 5000, 0);
		post(x, IBV_WR_RDMA_WRITE, id + 2, (size_t)i * 10, 9000, 120000);
		post(x, IBV_WR_RDMA_READ, id + 3, 50000, 40000, 0);
		post(x, IBV_WR_ATOMIC_FETCH_AND_ADD, id + 4, 210000, 8, 200000);
		assert_true(wait(x, x->rcq, 100 * SEC, &wc));
		assert_int_equal(wc.wr_id, id);
		assert_int_equal(wc.byte_len, 5000);
		assert_int_equal(wc.qp_num, x->to->qpn);
		for (uint64_t k = 1; k < 5; k++)
			expect(x, x->scq, id + k, IBV_WC_SUCCESS);
		assert_memory_equal(x->mem + i * 10, x->mem + 100000, 5000);
		assert_memory_equal(x->mem + i * 10, x->mem + 120000, 9000);
		assert_memory_equal(x->mem, x->mem + 50000, 40000);
		assert_int_equal(*word, 5 * (i + 1));
	}
}

static void requests_are_carried_out_in_another_process(void **state)
{
	struct lab *x = lab_open(NULL);

	(void)state;
	all_kinds(x, 3);
	lab_close(x);
}

static void loss_changes_nothing(void **state)
{
	struct sim_conf conf = { .fault = "drop=0.05,reorder=0.05,dup=0.05,seed=4",
				 .timeout = 10 };
	struct lab *x = lab_open(&conf);

	(void)state;
	all_kinds(x, 30);
	lab_close(x);
}

static void a_connection_that_is_full_is_tried_again(void **state)
{
	struct lab *x = lab_open(NULL);

	(void)state;
	for (int i = 0; i < 40; i++) {
		x->full = i % 7;
		all_kinds(x, 1);
	}
	lab_close(x);
}

static void an_empty_srq_elsewhere_is_waited_for(void **state)
{
	struct lab *x = lab_open(NULL);
	struct ibv_wc wc;

	(void)state;
	post(x, IBV_WR_SEND, 1, 0, 3000, 0);
	post(x, IBV_WR_RDMA_WRITE, 2, 0, 100, 120000);
	assert_false(wait(x, x->scq, 20 * MS, &wc));
	assert_true(ib_counter(&x->s->node[1].core, IB_TX_RNR) > 1);
	receive(x, 9, 100000, 4000);
	expect(x, x->scq, 1, IBV_WC_SUCCESS);
	expect(x, x->scq, 2, IBV_WC_SUCCESS);
	expect(x, x->rcq, 9, IBV_WC_SUCCESS);
	lab_close(x);
}

/* The receive is posted a little later: the peer, which would not come again, hears
 * nothing of that. */
static void a_late_receive_elsewhere_is_waited_for(void **state)
{
	const struct sim_conf conf = { .late = 100 * MS };
	const uint32_t lens[] = { 100, 60000 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct lab *x = lab_open(&conf);
		struct core *to = &x->s->node[1].core;
		struct ibv_wc wc;

		x->from->attr.rnr_retry = 0;
		post(x, IBV_WR_SEND, 1, 0, lens[i], 0);
		post(x, IBV_WR_RDMA_WRITE, 2, 0, 100, 240000);
		assert_false(wait(x, x->scq, 1 * MS, &wc));
		assert_int_equal(ib_counter(to, IB_RX_LATE), 1);
		receive(x, 9, 100000, 70000);
		expect(x, x->scq, 1, IBV_WC_SUCCESS);
		expect(x, x->scq, 2, IBV_WC_SUCCESS);
		expect(x, x->rcq, 9, IBV_WC_SUCCESS);
		assert_memory_equal(x->mem, x->mem + 100000, lens[i]);
		assert_int_equal(ib_counter(to, IB_TX_RNR), 0);
		lab_close(x);
	}
}

/* ... and one that does not come is told. */
static void no_receive_elsewhere_is_told_in_time(void **state)
{
	const struct sim_conf conf = { .late = 100 * MS };
	struct lab *x = lab_open(&conf);

	(void)state;
	x->from->attr.rnr_retry = 0;
	post(x, IBV_WR_SEND, 1, 0, 100, 0);
	expect(x, x->scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_in_range(x->s->now, 1 * MS, 110 * MS);
	assert_in_range(x->last, 4, 200); /* messages between the processes */
	lab_close(x);
}

static void a_key_that_it_has_not_is_refused(void **state)
{
	struct lab *x = lab_open(NULL);

	(void)state;
	post(x, IBV_WR_RDMA_READ, 1, 0, 100, SIZE);
	expect(x, x->scq, 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(x->to->state, IBV_QPS_ERR);
	assert_int_equal(sim_event(x->s, 1), IBV_EVENT_QP_ACCESS_ERR);
	lab_close(x);
}

static void an_srq_of_another_domain_is_none(void **state)
{
	struct lab *x = lab_open(NULL);

	(void)state;
	x->s->node[0].dev->guid++;
	receive(x, 9, 100000, 4000);
	post(x, IBV_WR_SEND, 1, 0, 100, 0);
	expect(x, x->scq, 1, IBV_WC_REM_INV_REQ_ERR);
	lab_close(x);
}

/* A process that was stopped may still execute the packets it was passed, but only
 * once. */
static void a_process_that_stops_is_waited_for(void **state)
{
	struct sim_conf conf = { .timeout = 14 };
	struct lab *x = lab_open(&conf);
	struct ibv_wc wc;

	(void)state;
	receive(x, 9, 100000, 4000);
	receive(x, 10, 100000, 4000);
	x->stopped = true;
	post(x, IBV_WR_SEND, 1, 0, 100, 0);
	assert_false(wait(x, x->scq, SEC, &wc));
	assert_true(ib_counter(&x->s->node[1].core, IB_TX_RNR) > 0);
	x->stopped = false;
	expect(x, x->scq, 1, IBV_WC_SUCCESS);
	expect(x, x->rcq, 9, IBV_WC_SUCCESS);
	assert_false(wait(x, x->rcq, SEC, &wc));
	lab_close(x);
}

static void what_a_process_that_ends_has_not_done_is_refused(void **state)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_READ,
						  IBV_WR_ATOMIC_FETCH_AND_ADD };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct lab *x = lab_open(NULL);
		struct ibv_wc wc;

		x->stopped = true;
		post(x, ops[i], 1, 0, 8, 200000);
		assert_false(wait(x, x->scq, 10 * MS, &wc));
		gone(x, 1, 1);
		expect(x, x->scq, 1, IBV_WC_REM_INV_REQ_ERR);
		x->stopped = false;
		while (deliver(x))
			;
		gone(x, 0, 2);
		lab_close(x);
	}
}

static void a_read_whose_bytes_do_not_come_is_refused(void **state)
{
	struct lab *x = lab_open(NULL);

	(void)state;
	post(x, IBV_WR_RDMA_READ, 1, 0, 100000, 100000);
	while (x->first < 3) { /* CARRY, DONE, FETCH; not DATA */
		sim_run(x->s, 20000);
		deliver(x);
	}
	gone(x, 1, 1);
	expect(x, x->scq, 1, IBV_WC_REM_INV_REQ_ERR);
	gone(x, 0, 2);
	lab_close(x);
}

/* A SEND of which the SRQ's process has the first packet. */
static void begin_message(struct lab *x)
{
	receive(x, 9, 100000, 6000);
	post(x, IBV_WR_SEND, 1, 0, 5000, 0);
	while (x->last == 0)
		sim_run(x->s, 20000);
	deliver(x); /* FIRST */
}

/* The target QP's process ends in the middle of a message: the SRQ's receive is
 * flushed. */
static void a_receive_under_way_is_flushed(void **state)
{
	struct lab *x = lab_open(NULL);
	struct ibv_wc wc;

	(void)state;
	begin_message(x);
	gone(x, 0, 2);
	x->stopped = true;
	assert_int_equal(cq_poll(x->rcq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 9);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	while (x->first != x->last)
		free(x->queue[x->first++ % QUEUE].bytes);
	lab_close(x);
}

static void an_srq_that_goes_takes_its_receive_along(void **state)
{
	struct lab *x = lab_open(NULL);

	(void)state;
	begin_message(x);
	assert_int_equal(srq_destroy(x->srq), 0);
	x->srq = NULL;
	expect(x, x->scq, 1, IBV_WC_REM_INV_REQ_ERR);
	lab_close(x);
}

/* A garbage message harms only the QP that it names. */
static void garbage_is_refused(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed < 60; seed++) {
		struct lab *x = lab_open(NULL);
		struct ibv_wc wc;

		x->spoil = 1 + seed % 5;
		x->seed = seed;
		for (uint64_t i = 0; i < 4; i++) {
			receive(x, 100 + i, 100000, 6000);
			post(x, IBV_WR_SEND, 4 * i, 0, 5000, 0);
			post(x, IBV_WR_RDMA_READ, 4 * i + 1, 50000, 60000, 0);
			post(x, IBV_WR_ATOMIC_FETCH_AND_ADD, 4 * i + 2, 210000, 8,
			     200000);
		}
		for (int i = 0; i < 12 && wait(x, x->scq, SEC, &wc); i++)
			if (wc.status)
				break;
		x->spoil = 0;
		while (deliver(x))
			;
		gone(x, 0, 2);
		lab_close(x);
	}
}

/* Loses the end of the message for half a second. */
static bool lose_last(void *arg, const struct sim_packet *p)
{
	(void)arg;
	return !strstr(ib_op(p->f.opcode)->name, "LAST") || p->now > SEC / 2;
}

/* The SRQ's process runs and owes no answer; the peer repeats its first packets after a
 * timeout that it chose. */
static void a_process_that_owes_no_answer_has_not_stopped(void **state)
{
	struct sim_conf conf = { .timeout = 18 }; /* over a second */
	struct lab *x = lab_open(&conf);

	(void)state;
	x->s->tap = lose_last;
	receive(x, 9, 100000, 4000);
	post(x, IBV_WR_SEND, 1, 0, 2000, 0);
	expect(x, x->rcq, 9, IBV_WC_SUCCESS);
	expect(x, x->scq, 1, IBV_WC_SUCCESS);
	assert_true(x->s->now > SEC / 2);
	assert_int_equal(ib_counter(&x->s->node[1].core, IB_TX_RNR), 0);
	lab_close(x);
}

static void inject(struct lab *x, enum ib_kind kind, enum ib_place place, uint32_t psn,
		   uint32_t srqn, uint32_t len)
{
	const struct ib_fields f = {
		.opcode = ib_opcode(IB_XRC, kind, place, IB_NONE),
		.dest_qp = x->to->qpn,
		.pkey = 0xffff,
		.psn = psn,
		.srqn = srqn,
	};

	sim_inject(x->s, 0, &f, x->mem, len);
}

static void what_breaks_off_a_message_is_refused(void **state)
{
	(void)state;
	for (int atomic = 0; atomic < 2; atomic++) {
		struct lab *x = lab_open(NULL);
		const uint32_t here = (2u << (24 - QPN_SLOT_BITS)) + 5;
		struct ibv_wc wc;

		receive(x, 9, 100000, 4000);
		x->full = atomic; /* and the question is put again */
		inject(x, IB_SEND, IB_FIRST, 0, x->srq->num, 1024);
		if (atomic)
			inject(x, IB_FETCH_ADD, IB_ONLY, 1, x->srq->num, 0);
		else
			inject(x, IB_SEND, IB_ONLY, 1, here, 100);
		assert_true(wait(x, x->rcq, 50 * MS, &wc));
		assert_int_equal(wc.wr_id, 9);
		assert_int_not_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(x->to->state, IBV_QPS_ERR);
		assert_int_equal(sim_event(x->s, 1), IBV_EVENT_QP_REQ_ERR);
		lab_close(x);
	}
}

/* A message waits for a receive of an SRQ of this process. The peer sends another one in
 * its place, for the other process: the first one must not be executed, too. */
static void what_waited_here_goes_elsewhere(void **state)
{
	const struct sim_conf conf = { .late = RECV_WAIT_NS };
	struct lab *x = lab_open(&conf);
	struct sim_node *b = &x->s->node[1];
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_recv_wr wr = { .wr_id = 8 }, *bad;
	struct cq *cq = sim_cq(x->s, 1, 8);
	struct srq *here;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(srq_create_xrc(&b->ctx, b->pd, x->xrcd[1], cq, &a, &here), 0);
	inject(x, IB_SEND, IB_ONLY, 0, here->num, 0);
	sim_run(x->s, MS / 10);
	assert_false(list_empty(&here->awaiting));
	receive(x, 9, 100000, 4000);
	inject(x, IB_SEND, IB_ONLY, 0, x->srq->num, 100);
	sim_run(x->s, MS / 10);
	(void)srq_post(here, &wr, &bad);
	sim_run(x->s, MS / 10);
	expect(x, x->rcq, 9, IBV_WC_SUCCESS);
	assert_false(wait(x, cq, 3 * MS, &wc));
	assert_int_equal(ib_qp(x->to)->rsp.epsn, 1);
	assert_int_equal(srq_destroy(here), 0);
	assert_int_equal(cq_destroy(cq), 0);
	lab_close(x);
}

/* --- the end of a life ----------------------------------------------------------- */

/* A message whose first packet has taken a receive in the other process. */
static struct lab *half_a_message(void)
{
	struct lab *x = lab_open(NULL);

	receive(x, 9, 100000, 6000);
	post(x, IBV_WR_SEND, 1, 0, 5000, 0);
	while (x->last == 0)
		sim_run(x->s, 20000);
	assert_true(deliver(x)); /* FIRST; the rest is never delivered */
	while (x->first != x->last)
		free(x->queue[x->first++ % QUEUE].bytes);
	assert_false(list_empty(&x->s->node[0].core.xrc.stand_ins));
	return x;
}

/* The connection is full, and then takes the XRC_END. */
static void expect_the_end(struct lab *x)
{
	struct ibv_wc wc;

	run_timers(x);
	x->s->now += 2 * MS;
	run_timers(x);
	while (deliver(x))
		;
	assert_true(list_empty(&x->s->node[0].core.xrc.stand_ins));
	assert_int_equal(cq_poll(x->rcq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 9);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
}

static void the_end_of_a_qp_is_said_until_it_is_taken(void **state)
{
	struct lab *x = half_a_message();

	(void)state;
	sim_destroy(x->s, x->from);
	x->full = 1;
	sim_destroy(x->s, x->to);
	assert_int_equal(x->full, 0);
	expect_the_end(x);
	lab_close_but_qps(x);
}

static void modify(struct lab *x, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };

	assert_int_equal(qp_modify(x->to, &a, IBV_QP_STATE, x->s->now), 0);
}

/* The stand-in sees one life after another, and knows which one ended. */
static void a_reset_is_said_until_it_is_taken(void **state)
{
	struct lab *x = half_a_message();

	(void)state;
	x->full = 1;
	modify(x, IBV_QPS_RESET);
	assert_int_equal(x->full, 0);
	expect_the_end(x);
	lab_close(x);
}

/* When the last process that was to be told has ended, the relay is freed. */
static void a_process_that_has_ended_need_not_hear_it(void **state)
{
	struct lab *x = half_a_message();

	(void)state;
	x->full = 1;
	sim_destroy(x->s, x->from);
	sim_destroy(x->s, x->to);
	assert_false(list_empty(&xrc_of(ib_of(&x->s->node[1].core))->ends));
	gone(x, 1, 1);
	assert_true(list_empty(&xrc_of(ib_of(&x->s->node[1].core))->ends));
	gone(x, 0, 2);
	lab_close_but_qps(x);
}

static void swap(struct qp **a, struct qp **b)
{
	struct qp *t = *a;

	*a = *b;
	*b = t;
}

/* The process of the SRQ is stopped, and its connection full. QPs come and go: for each
 * there is something to say, but one refusal is enough. */
static void a_full_connection_is_tried_once_for_all(void **state)
{
	enum { QPS = 4 };
	struct lab *x = lab_open(NULL);
	struct qp *from[QPS], *to[QPS];
	struct ibv_wc wc;

	(void)state;
	for (int i = 0; i < QPS; i++) {
		sim_xrc(x->s, x->scq, x->xrcd[1], &x->conf, &from[i], &to[i]);
		swap(&x->from, &from[i]);
		post(x, IBV_WR_RDMA_WRITE, 1, 0, 100, 120000);
		swap(&x->from, &from[i]);
	}
	for (int i = 0; i < QPS; i++)
		expect(x, x->scq, 1, IBV_WC_SUCCESS);
	x->full = 100;
	for (int i = 0; i < QPS; i++) {
		sim_destroy(x->s, to[i]);
		sim_destroy(x->s, from[i]);
	}
	assert_int_equal(x->full, 100 - QPS);
	for (int i = 1; i <= 3; i++) {
		run_timers(x);
		x->s->now += 2 * MS;
		run_timers(x);
		assert_int_equal(x->full, 100 - QPS - i);
	}
	x->full = 0;
	assert_false(wait(x, x->scq, 2 * MS, &wc));
	assert_true(list_empty(&xrc_of(ib_of(&x->s->node[1].core))->ends));
	lab_close(x);
}

/* What no process has heard of need not be ended. */
static void a_question_that_was_never_put_is_not_ended(void **state)
{
	struct lab *x = lab_open(NULL);

	(void)state;
	x->full = 1000;
	post(x, IBV_WR_SEND, 1, 0, 100, 0);
	sim_run(x->s, MS);
	assert_int_equal(x->last, 0);
	assert_true(x->full < 1000);
	sim_destroy(x->s, x->from);
	sim_destroy(x->s, x->to);
	assert_true(list_empty(&xrc_of(ib_of(&x->s->node[1].core))->ends));
	lab_close_but_qps(x);
}

/* --- parts of a READ's answer ---------------------------------------------------- */

static int bytes(struct lab *x, const struct resource *t, struct rsp_bytes *out)
{
	struct core *core = &x->s->node[1].core;
	enum refusal why;
	int rc;

	turn_take(&core->turn);
	lock_take(&x->to->lock);
	rc = relay_bytes(ib_qp(x->to), t, x->s->now, out, &why);
	lock_give(&x->to->lock);
	turn_give(&core->turn);
	return rc;
}

static void renew(struct lab *x)
{
	struct core *core = &x->s->node[1].core;

	turn_take(&core->turn);
	lock_take(&x->to->lock);
	relay_free(ib_qp(x->to));
	lock_give(&x->to->lock);
	turn_give(&core->turn);
}

static struct resource a_read(const struct lab *x, uint32_t len)
{
	return (struct resource){
		.va = x->mr->mkey.base,
		.rkey = x->mr->mkey.key,
		.len = len,
		.npkts = (len + 1023) / 1024,
		.srqn = x->srq->num,
	};
}

static void a_part_is_that_of_a_read_of_its_length(void **state)
{
	struct lab *x = lab_open(NULL);
	struct resource t = a_read(x, 2500), longer = a_read(x, 9000);
	struct rsp_bytes b;

	(void)state;
	assert_int_equal(bytes(x, &t, &b), -EAGAIN);
	while (deliver(x))
		;
	assert_int_equal(bytes(x, &t, &b), 0);
	assert_int_equal(b.end - b.first, 3);
	t.sent = 2;
	assert_int_equal(bytes(x, &t, &b), 0);
	assert_int_equal(b.end - b.first, 1);
	assert_memory_equal(b.span.v[0].host, x->mem + 2048, 452);
	assert_int_equal(bytes(x, &longer, &b), -EAGAIN);
	while (deliver(x))
		;
	assert_int_equal(bytes(x, &longer, &b), 0);
	assert_int_equal(b.end - b.first, 9);
	assert_memory_equal(b.span.v[0].host, x->mem, 9000);
	lab_close(x);
}

/* A late part for an earlier relay is not taken for this relay's, however many there were
 * between. */
static void parts_of_two_relays_have_different_numbers(void **state)
{
	struct lab *x = lab_open(NULL);
	struct resource t = a_read(x, 1000);
	struct rsp_bytes b;

	(void)state;
	assert_int_equal(bytes(x, &t, &b), -EAGAIN);
	assert_true(deliver(x)); /* XRC_FETCH; XRC_DATA is still on its way */
	renew(x);
	xrc_of(ib_of(&x->s->node[1].core))->lives += 0xffff;
	x->stopped = true;
	x->mem[0] ^= 1;
	assert_int_equal(bytes(x, &t, &b), -EAGAIN);
	deliver(x);
	assert_int_equal(bytes(x, &t, &b), -EAGAIN);
	x->stopped = false;
	while (deliver(x))
		;
	assert_int_equal(bytes(x, &t, &b), 0);
	assert_memory_equal(b.span.v[0].host, x->mem, 1000);
	lab_close(x);
}

/* --- a life that ends while a part is fetched ----------------------------------------
 */

/* A READ was accepted, and its bytes are asked for; none has come. */
static void begin_read(struct lab *x, uint32_t len)
{
	post(x, IBV_WR_RDMA_READ, 1, 100000, len, 0);
	while (x->last < 3) { /* CARRY, DONE, FETCH */
		sim_run(x->s, 20000);
		if (x->first < 2)
			deliver(x);
	}
}

/* The QP has failed, and its NAK waits behind the answer of a READ. The program resets
 * the QP at once, and connects it again: a READ of the same bytes must not get what was
 * fetched before. */
static void a_part_of_an_earlier_life_is_not_sent(void **state)
{
	struct lab *x = lab_open(NULL);
	const uint32_t here = (2u << (24 - QPN_SLOT_BITS)) + 5;
	const struct resource t = a_read(x, 1000);
	struct rsp_bytes b;

	(void)state;
	begin_read(x, 1000);
	assert_true(deliver(x));		   /* XRC_FETCH; XRC_DATA is on its way */
	inject(x, IB_SEND, IB_LAST, 1, here, 100); /* of no message */
	sim_run(x->s, 20000);
	assert_int_equal(x->to->state, IBV_QPS_ERR);
	assert_true(ib_qp(x->to)->rsp.nak_due);
	modify(x, IBV_QPS_RESET);
	x->mem[0] ^= 1;
	assert_int_equal(bytes(x, &t, &b), -EAGAIN);
	while (deliver(x))
		;
	assert_int_equal(bytes(x, &t, &b), 0);
	assert_memory_equal(b.span.v[0].host, x->mem, 1000);
	lab_close(x);
}

/* --- questions that are dropped -------------------------------------------------------
 */

/* Asks again for the READ of 1000 bytes that had PSN 0. */
static void read_again(struct lab *x, uint32_t srqn)
{
	const struct ib_fields f = {
		.opcode = ib_opcode(IB_XRC, IB_READ, IB_ONLY, IB_NONE),
		.dest_qp = x->to->qpn,
		.pkey = 0xffff,
		.srqn = srqn,
		.va = x->mr->mkey.base,
		.rkey = x->mr->mkey.key,
		.dma_len = 1000,
	};

	sim_inject(x->s, 0, &f, NULL, 0);
	sim_run(x->s, 20000);
}

/* While bytes for a READ that was asked for again are fetched, a SEND waits. Then the
 * peer wants other bytes instead, which no process has. */
static void what_waits_goes_on_when_a_fetch_is_dropped(void **state)
{
	const uint32_t nobody = (3u << (24 - QPN_SLOT_BITS)) + 5;
	struct lab *x = lab_open(NULL);

	(void)state;
	receive(x, 9, 150000, 4000);
	post(x, IBV_WR_RDMA_READ, 1, 100000, 1000, 0);
	expect(x, x->scq, 1, IBV_WC_SUCCESS);
	x->stopped = true;
	read_again(x, x->srq->num);
	post(x, IBV_WR_SEND, 2, 0, 100, 0);
	sim_run(x->s, 20000);
	read_again(x, nobody);
	x->stopped = false;
	expect(x, x->scq, 2, IBV_WC_SUCCESS);
	expect(x, x->rcq, 9, IBV_WC_SUCCESS);
	lab_close(x);
}

/* A READ was accepted, and its bytes are to be fetched when the SRQ's process has
 * answered for the SEND behind it. But the QP fails before that: the READ is answered all
 * the same, and then comes the NAK. */
static void a_read_is_answered_before_the_nak(void **state)
{
	struct lab *x = lab_open(NULL);
	const struct bth next = { .psn = be24(1) };

	(void)state;
	receive(x, 9, 150000, 4000);
	post(x, IBV_WR_RDMA_READ, 1, 100000, 1000, 0);
	post(x, IBV_WR_SEND, 2, 0, 100, 0);
	sim_run(x->s, MS);
	deliver(x); /* CARRY of the READ */
	deliver(x); /* DONE */
	sim_run(x->s, 20000);
	assert_int_equal(x->last - x->first, 1); /* CARRY of the SEND */
	turn_take(&x->s->node[1].core.turn);
	lock_take(&x->to->lock);
	qp_is_held(ib_qp(x->to)->qp);
	rc_reserved(ib_qp(x->to), &next, x->s->now);
	ib_settle(ib_qp(x->to));
	lock_give(&x->to->lock);
	turn_give(&x->s->node[1].core.turn);
	x->full = 1; /* for the answer, which is not asked for again */
	deliver(x);
	assert_int_equal(x->full, 0);
	expect(x, x->scq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(x->mem + 100000, x->mem, 1000);
	expect(x, x->scq, 2, IBV_WC_REM_INV_REQ_ERR);
	lab_close(x);
}

/* A SEND behind a READ finds no receive, and its time is up while the READ's bytes are
 * waited for. The READ's answer comes first; then RNR is told at once. */
static void no_receive_is_told_behind_a_read(void **state)
{
	const struct sim_conf conf = { .late = 100 * MS, .timeout = 20 };
	struct lab *x = lab_open(&conf);

	(void)state;
	x->from->attr.rnr_retry = 0;
	post(x, IBV_WR_RDMA_READ, 1, 100000, 1000, 0);
	post(x, IBV_WR_SEND, 2, 0, 100, 0);
	while (x->last < 5) { /* CARRY, DONE, CARRY, DONE, FETCH */
		sim_run(x->s, 20000);
		if (x->first < 4)
			deliver(x);
	}
	assert_int_equal(x->queue[4].bytes[0], XRC_FETCH);
	x->stopped = true;
	sim_run(x->s, 800 * MS);
	assert_true(x->s->now > 800 * MS);
	x->stopped = false;
	expect(x, x->scq, 1, IBV_WC_SUCCESS);
	expect(x, x->scq, 2, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_in_range(x->s->now, 800 * MS, 810 * MS);
	lab_close(x);
}

/* --- duplicates of what waits ----------------------------------------------------------
 */

static bool count_acks(void *arg, const struct sim_packet *p)
{
	*(unsigned *)arg += p->side == 1 && !strcmp(ib_op(p->f.opcode)->name, "ACK");
	return true;
}

/* The peer asks for an ACK only when it sends the packet again, while it waits. */
static void a_duplicate_that_asks_for_an_ack_gets_it(void **state)
{
	struct lab *x = lab_open(NULL);
	unsigned acks = 0;
	struct ib_fields f = {
		.opcode = ib_opcode(IB_XRC, IB_SEND, IB_ONLY, IB_NONE),
		.dest_qp = x->to->qpn,
		.pkey = 0xffff,
		.srqn = x->srq->num,
	};

	(void)state;
	x->s->tap = count_acks;
	x->s->tap_arg = &acks;
	receive(x, 9, 100000, 4000);
	x->stopped = true;
	sim_inject(x->s, 0, &f, x->mem, 100);
	sim_run(x->s, 20000);
	f.ackreq = true;
	sim_inject(x->s, 0, &f, x->mem, 100);
	sim_run(x->s, 20000);
	x->stopped = false;
	expect(x, x->rcq, 9, IBV_WC_SUCCESS);
	while (deliver(x))
		;
	sim_run(x->s, MS);
	assert_int_equal(acks, 1);
	lab_close(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_are_carried_out_in_another_process),
		cmocka_unit_test(loss_changes_nothing),
		cmocka_unit_test(a_connection_that_is_full_is_tried_again),
		cmocka_unit_test(an_empty_srq_elsewhere_is_waited_for),
		cmocka_unit_test(a_late_receive_elsewhere_is_waited_for),
		cmocka_unit_test(no_receive_elsewhere_is_told_in_time),
		cmocka_unit_test(a_key_that_it_has_not_is_refused),
		cmocka_unit_test(an_srq_of_another_domain_is_none),
		cmocka_unit_test(a_process_that_stops_is_waited_for),
		cmocka_unit_test(a_process_that_owes_no_answer_has_not_stopped),
		cmocka_unit_test(what_breaks_off_a_message_is_refused),
		cmocka_unit_test(what_waited_here_goes_elsewhere),
		cmocka_unit_test(what_a_process_that_ends_has_not_done_is_refused),
		cmocka_unit_test(a_read_whose_bytes_do_not_come_is_refused),
		cmocka_unit_test(a_receive_under_way_is_flushed),
		cmocka_unit_test(an_srq_that_goes_takes_its_receive_along),
		cmocka_unit_test(garbage_is_refused),
		cmocka_unit_test(the_end_of_a_qp_is_said_until_it_is_taken),
		cmocka_unit_test(a_reset_is_said_until_it_is_taken),
		cmocka_unit_test(a_process_that_has_ended_need_not_hear_it),
		cmocka_unit_test(a_full_connection_is_tried_once_for_all),
		cmocka_unit_test(a_question_that_was_never_put_is_not_ended),
		cmocka_unit_test(a_part_is_that_of_a_read_of_its_length),
		cmocka_unit_test(parts_of_two_relays_have_different_numbers),
		cmocka_unit_test(a_part_of_an_earlier_life_is_not_sent),
		cmocka_unit_test(what_waits_goes_on_when_a_fetch_is_dropped),
		cmocka_unit_test(a_read_is_answered_before_the_nak),
		cmocka_unit_test(no_receive_is_told_behind_a_read),
		cmocka_unit_test(a_duplicate_that_asks_for_an_ack_gets_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
