/* SPDX-License-Identifier: BSD-2-Clause */
/* A plan changes nothing by itself: only what the link takes of it does. */
#include "ib/fix.h"

#include "net/batch.h"
#include "net/link.h"
#include "verbs/transport.h"

static struct batch batch;

static bool plan(struct fix *f, int side)
{
	struct qp *qp = f->p.qp[side];
	bool more;

	batch_reset(&batch);
	f->s->node[side].link->run_max = 1;
	lock_take(&qp->lock);
	more = qp->transport->output(qp, &batch, f->s->now);
	lock_give(&qp->lock);
	return more;
}

static void commit(struct fix *f, int side, unsigned n)
{
	struct qp *qp = f->p.qp[side];

	lock_take(&qp->lock);
	qp->transport->commit(qp, 0, n, f->s->now);
	lock_give(&qp->lock);
}

/* The requester's state, less what a plan may change without effect: the entries of rd[]
 * that are not valid yet, and the planned part of the window. */
static struct ib_req visible(struct fix *f, int side)
{
	struct ib_req r = fix_ib(f, side)->req;

	r.planned = r.quantum = 0;
	memset(r.rd, 0, sizeof(r.rd));
	return r;
}

static void post_some(struct fix *f)
{
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 5000, 0);
	fix_post(f, IBV_WR_RDMA_READ, 2, 10000, 3000, 0);
	fix_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 20000, 8, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 4, 30000, 100, 0);
}

static void a_plan_is_no_step(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_req before, after;
	unsigned n;

	(void)state;
	post_some(f);
	before = visible(f, 0);
	assert_false(plan(f, 0));
	n = batch.n;
	assert_int_equal(n, 5 + 1 + 1 + 1);
	after = visible(f, 0);
	assert_memory_equal(&before, &after, sizeof(before));
	commit(f, 0, 0);
	assert_int_equal(fix_ib(f, 0)->req.planned, 0);
	assert_int_equal(fix_ib(f, 0)->host->planned, 0);
	assert_int_equal(ib_counter(&f->s->node[0].core, IB_TX), 0);
	/* the same packets are planned once more */
	assert_false(plan(f, 0));
	assert_int_equal(batch.n, n);
	commit(f, 0, 0);
	fix_quiet(f);
	for (unsigned i = 1; i <= 4; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_close(f);
}

/* However many packets the link takes, the rest follows and none goes twice. */
static void any_part_is_taken(void **state)
{
	(void)state;
	for (unsigned taken = 0; taken <= 8; taken++) {
		struct fix *f = fix_open(IBV_QPT_RC, NULL);
		unsigned sent = 0;

		post_some(f);
		while (plan(f, 0) || batch.n > 0) {
			unsigned n = batch.n < taken + 1 ? batch.n : taken + 1;

			commit(f, 0, n);
			sent += n;
			if (n == 0)
				break;
		}
		assert_int_equal(sent, 8);
		assert_int_equal(fix_ib(f, 0)->req.at.psn, 5 + 3 + 1 + 1);
		assert_int_equal(fix_ib(f, 0)->req.at.reads, 2);
		assert_int_equal(fix_ib(f, 0)->req.flight, fix_ib(f, 0)->host->flight);
		assert_int_equal(ib_counter(&f->s->node[0].core, IB_TX), 8);
		assert_int_equal(ib_counter(&f->s->node[0].core, IB_TX_RETRANSMIT), 0);
		fix_close(f);
	}
}

/* The link is asked every `every` ns and takes nothing.  Returns the time, ns, until the
 * QP has no more to send; NEVER: it still has after ten seconds. */
static uint64_t ask_in_vain(struct fix *f, uint64_t every)
{
	const uint64_t from = f->s->now;

	while (f->s->now < from + 10 * SEC) {
		f->s->now += every;
		(void)plan(f, 0);
		if (batch.n == 0)
			return f->s->now - from;
		commit(f, 0, 0);
	}
	return NEVER;
}

/* No timer runs for packets that have not left.  All the same, a link that takes nothing
 * ends the QP, within the time that a silent peer has, but not before a second. */
static void a_link_that_takes_nothing(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &(struct sim_conf){ .timeout = 16 });
	uint64_t after;

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 3000, 0);
	after = ask_in_vain(f, MS / 10);
	assert_in_range(after, 8 * 268435456ull, 8 * 268435456ull + MS);
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR).vendor_err, VERR_LINK);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
	fix_close(f);

	f = fix_open(IBV_QPT_RC, &(struct sim_conf){ .timeout = 8, .retry_cnt = 1 });
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 3000, 0);
	after = ask_in_vain(f, MS / 10);
	assert_in_range(after, SEC, SEC + MS);
	fix_close(f);
}

/* The packets left, and the link takes nothing since: the repetitions cannot leave. */
static void a_link_that_takes_nothing_more(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct qp *qp = f->p.qp[0];

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 3000, 0);
	(void)plan(f, 0);
	commit(f, 0, 3);
	while (fix_ib(f, 0)->req.at.psn != fix_ib(f, 0)->req.s.una) {
		f->s->now += MS;
		lock_take(&qp->lock);
		qp->transport->run(qp, f->s->now);
		lock_give(&qp->lock);
	}
	assert_in_range(ask_in_vain(f, MS / 10), SEC, SEC + MS);
	fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	fix_close(f);
}

/* A process that was stopped has not asked the link meanwhile, and a link that takes one
 * packet is not stuck. */
static void a_link_that_was_not_asked(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 3000, 0);
	assert_int_equal(ask_in_vain(f, SEC), NEVER);
	for (int i = 0; i < 3; i++) {
		for (int j = 0; j < 900; j++) {
			f->s->now += MS;
			(void)plan(f, 0);
			commit(f, 0, 0);
		}
		(void)plan(f, 0);
		commit(f, 0, 1);
	}
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

/* The link is full whenever this QP's turn comes, as it takes what other QPs send. */
static void a_link_that_takes_from_others(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct link *link = f->p.qp[0]->ctx->link;

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 3000, 0);
	for (int i = 0; i < 5000; i++) {
		f->s->now += MS;
		(void)plan(f, 0);
		assert_int_equal(batch.n, 3);
		link->took_at = f->s->now;
		commit(f, 0, 0);
	}
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_RTS);
	assert_in_range(ask_in_vain(f, MS / 10), SEC, SEC + MS);
	fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	fix_close(f);
}

/* Without a timeout a QP waits for ever, for a silent peer as for a link. */
static void a_qp_without_a_timeout(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);

	(void)state;
	f->p.qp[0]->attr.timeout = 0;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 3000, 0);
	assert_int_equal(ask_in_vain(f, MS), NEVER);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

/* UC has no peer to wait for: what the link does not take is lost. */
static void uc_loses_what_is_not_taken(void **state)
{
	struct fix *f = fix_open(IBV_QPT_UC, NULL);

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 3000, 0);
	assert_in_range(ask_in_vain(f, MS / 10), SEC, SEC + MS);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

/* A work request that cannot be sent fails when the packets before it have been sent, not
 * when they are only planned. */
static void an_error_waits_for_what_is_planned(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ibv_sge bad = sim_sge(f->mr[0], 0, 100);
	struct ibv_send_wr wr = { .wr_id = 2,
				  .opcode = IBV_WR_SEND,
				  .sg_list = &bad,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 3000, 0);
	bad.lkey ^= 0x100;
	sim_send(f->p.qp[0], &wr);
	assert_true(plan(f, 0));
	assert_int_equal(batch.n, 3);
	assert_false(fix_ib(f, 0)->req.s.failed);
	commit(f, 0, 2);
	assert_true(plan(f, 0));
	assert_int_equal(batch.n, 1);
	assert_false(fix_ib(f, 0)->req.s.failed);
	commit(f, 0, 1);
	assert_false(plan(f, 0));
	assert_true(fix_ib(f, 0)->req.s.failed);
	fix_quiet(f); /* the WRITE is lost and sent again */
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_LOC_PROT_ERR);
	fix_close(f);
}

static void read_of_b(struct fix *f, uint32_t psn, uint32_t len)
{
	struct resource r = {
		.psn = psn,
		.npkts = (len - 1) / 1024 + 1,
		.len = len,
		.va = f->mr[1]->mkey.base,
		.rkey = f->mr[1]->mkey.key,
	};
	struct ib_qp *q = fix_ib(f, 1);

	lock_take(&q->qp->lock);
	rsp_add_pending(q, &r);
	q->rsp.epsn = psn + r.npkts;
	q->rsp.ack.due = true;
	lock_give(&q->qp->lock);
}

/* An answer that the link did not take stays pending, and so does the ACK behind it. */
static void answers_are_pending_until_they_are_taken(void **state)
{
	(void)state;
	for (unsigned taken = 1; taken <= 7; taken++) {
		struct fix *f = fix_open(IBV_QPT_RC, NULL);
		unsigned sent = 0;

		read_of_b(f, 0, 3000);
		read_of_b(f, 3, 2500);
		for (int round = 0; sent < 7 && round < 10; round++) {
			unsigned n;

			plan(f, 1);
			assert_int_equal(batch.n, 7 - sent);
			n = batch.n < taken ? batch.n : taken;
			commit(f, 1, n);
			sent += n;
			assert_int_equal(fix_ib(f, 1)->rsp.ack.due, sent < 7);
			assert_int_equal(fix_ib(f, 1)->rsp.resources, sent < 3	 ? 2
								      : sent < 6 ? 1
										 : 0);
		}
		assert_int_equal(sent, 7);
		fix_close(f);
	}
}

/* UC and UD requests are done when the link has them. */
static void unreliable_ones_complete_when_taken(void **state)
{
	struct fix *f = fix_open(IBV_QPT_UC, NULL);

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 3000, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 100, 0);
	plan(f, 0);
	assert_int_equal(batch.n, 4);
	commit(f, 0, 2);
	fix_no_wc(f, 0);
	plan(f, 0);
	commit(f, 0, 1);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_no_wc(f, 0);
	plan(f, 0);
	commit(f, 0, 1);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_close(f);
}

/* Two QPs plan for one batch: together they plan no more than the window holds. */
static void a_window_is_planned_once(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct sim_pair p = sim_pair(f->s, IBV_QPT_RC, &f->conf);
	struct qp *qp[2] = { f->p.qp[0], p.qp[0] };
	struct cc_host *h = fix_ib(f, 0)->host;

	(void)state;
	h->window = CC_WINDOW_MIN;
	batch_reset(&batch);
	f->s->node[0].link->run_max = 1;
	for (int i = 0; i < 2; i++) {
		struct ibv_sge sge = sim_sge(f->mr[0], 0, 100000);
		struct ibv_send_wr wr = {
			.opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.wr.rdma = { f->mr[1]->mkey.base, f->mr[1]->mkey.key },
		};

		sim_send(qp[i], &wr);
		lock_take(&qp[i]->lock);
		qp[i]->transport->output(qp[i], &batch, f->s->now);
		lock_give(&qp[i]->lock);
	}
	/* A QP with nothing in flight may always send one packet. */
	assert_in_range(h->planned, CC_WINDOW_MIN / 2, CC_WINDOW_MIN + 1024 + CC_PACKET);
	assert_int_equal(h->flight, 0);
	for (int i = 0; i < 2; i++) {
		lock_take(&qp[i]->lock);
		qp[i]->transport->commit(qp[i], 0, 0, f->s->now);
		lock_give(&qp[i]->lock);
	}
	assert_int_equal(h->planned, 0);
	sim_unpair(f->s, &p);
	fix_close(f);
}

/* SQD in the middle of a message: the rest is sent, and then the event comes. */
static void draining_ends(enum ibv_qp_type type)
{
	struct fix *f = fix_open(type, NULL);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct qp *qp = f->p.qp[0];

	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100000, 0);
	plan(f, 0);
	commit(f, 0, 3);
	assert_int_equal(qp_modify(qp, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY,
				   f->s->now),
			 0);
	assert_true(qp->sqd.draining);
	due_add(qp->core, qp);
	fix_quiet(f);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_false(qp->sqd.draining);
	assert_int_equal(sim_event(f->s, 0), IBV_EVENT_SQ_DRAINED);
	fix_close(f);
}

static void draining_in_the_middle(void **state)
{
	(void)state;
	draining_ends(IBV_QPT_RC);
	draining_ends(IBV_QPT_UC);
}

/* The process was stopped before a retransmission went out: the peer has had no time to
 * answer it yet. */
static void what_is_sent_again_is_timed_from_when_it_went(void **state)
{
	struct sim_conf c = { .timeout = 14, .retry_cnt = 3 };
	struct fix *f = fix_open(IBV_QPT_RC, &c);
	struct qp *qp = f->p.qp[0];
	uint64_t t = 4096ull << 14, next;

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	for (unsigned i = 0; i < 10; i++) {
		assert_false(plan(f, 0));
		assert_int_equal(batch.n, 1);
		f->s->now += 3 * t;
		commit(f, 0, 1);
		lock_take(&qp->lock);
		next = qp->transport->run(qp, f->s->now);
		lock_give(&qp->lock);
		assert_int_equal(ib_counter(qp->core, IB_TX_TIMEOUT), i);
		assert_int_equal(fix_ib(f, 0)->req.timeout_at, f->s->now + t);
		assert_in_range(next, f->s->now + 1, f->s->now + t);
		if (i == c.retry_cnt)
			break;
		f->s->now += t;
		lock_take(&qp->lock);
		assert_int_equal(qp->transport->run(qp, f->s->now), NEVER);
		lock_give(&qp->lock);
		assert_int_equal(fix_ib(f, 0)->req.s.retry_left, c.retry_cnt - 1 - i);
	}
	assert_int_equal(fix_ib(f, 0)->req.s.retry_left, 0);
	fix_quiet(f); /* a probe is answered */
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plan_is_no_step),
		cmocka_unit_test(any_part_is_taken),
		cmocka_unit_test(a_link_that_takes_nothing),
		cmocka_unit_test(a_link_that_takes_nothing_more),
		cmocka_unit_test(a_link_that_was_not_asked),
		cmocka_unit_test(a_link_that_takes_from_others),
		cmocka_unit_test(a_qp_without_a_timeout),
		cmocka_unit_test(uc_loses_what_is_not_taken),
		cmocka_unit_test(an_error_waits_for_what_is_planned),
		cmocka_unit_test(answers_are_pending_until_they_are_taken),
		cmocka_unit_test(unreliable_ones_complete_when_taken),
		cmocka_unit_test(a_window_is_planned_once),
		cmocka_unit_test(draining_in_the_middle),
		cmocka_unit_test(what_is_sent_again_is_timed_from_when_it_went),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
