/* SPDX-License-Identifier: BSD-2-Clause */
/* When places of queues return: docs/dev/queues.md. */
#include "sys/rand.h"
#include "verbs/complete.h"
#include "verbs/qp_fixture.h"
#include "verbs/target.h"

static void succeed(struct qp *qp)
{
	lock_take(&qp->lock);
	sq_complete(qp, IBV_WC_SUCCESS, VERR_NONE, 5);
	lock_give(&qp->lock);
}

static void break_qp(struct qp *qp)
{
	lock_take(&qp->lock);
	qp_fail(qp, false, -1, 5);
	lock_give(&qp->lock);
}

/* Takes a receive for a message; false: there is none. */
static bool begin(struct qp *qp, struct rwqe *w)
{
	bool got;

	lock_take(&qp->lock);
	got = qp_pop_recv(qp, w);
	lock_give(&qp->lock);
	return got;
}

static bool receive(struct qp *qp)
{
	struct cqe cqe = { .opcode = IBV_WC_RECV };
	struct rwqe w;

	if (!begin(qp, &w))
		return false;
	lock_take(&qp->lock);
	rq_complete(qp, &w, &cqe, false);
	lock_give(&qp->lock);
	return true;
}

static uint32_t used(const struct qp *qp)
{
	return qp->sq.head - qp->sq.returned;
}

static void the_next_completion_covers_unsignalled_requests(void **state)
{
	struct fix *f = fix_open(16);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);

	(void)state;
	fix_bring(qp, IBV_QPS_RTS);
	for (uint64_t i = 0; i < 8; i++) {
		assert_int_equal(fix_send(qp, i, i == 5 ? IBV_SEND_SIGNALED : 0), 0);
		succeed(qp);
	}
	assert_int_equal(fix_send(qp, 8, 0), -ENOMEM); /* though all are executed */
	fix_wc(f->scq, 5, IBV_WC_SUCCESS);
	assert_int_equal(used(qp), 2);
	for (uint64_t i = 8; i < 14; i++) {
		assert_int_equal(fix_send(qp, i, 0), 0);
		succeed(qp);
	}
	assert_int_equal(fix_send(qp, 14, IBV_SEND_SIGNALED), -ENOMEM);
	assert_true(cq_empty(f->scq));
	/* Nothing but a reset helps. */
	assert_int_equal(fix_step(qp, IBV_QPS_RESET), 0);
	assert_int_equal(used(qp), 0);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void a_flush_covers_what_was_executed(void **state)
{
	struct fix *f = fix_open(16);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);

	(void)state;
	fix_bring(qp, IBV_QPS_RTS);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(fix_send(qp, i, 0), 0);
	succeed(qp);
	succeed(qp);
	assert_int_equal(fix_recv(qp, 10), 0);
	break_qp(qp);
	assert_int_equal(used(qp), 4);
	fix_wc(f->scq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(used(qp), 1);
	fix_wc(f->scq, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(used(qp), 0);
	assert_int_equal(rq_used(&qp->rq), 1);
	fix_wc(f->rcq, 10, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rq_used(&qp->rq), 0);
	/* In ERR posts take places, too. */
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(fix_send(qp, i, 0), 0);
	assert_int_equal(fix_send(qp, 8, 0), -ENOMEM);
	fix_wc(f->scq, 0, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(fix_send(qp, 8, 0), 0);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void receives_return_one_by_one(void **state)
{
	struct fix *f = fix_open(16);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);

	(void)state;
	fix_bring(qp, IBV_QPS_RTS);
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(fix_recv(qp, i), 0);
	assert_int_equal(fix_recv(qp, 8), -ENOMEM);
	for (int i = 0; i < 7; i++)
		assert_true(receive(qp));
	lock_take(&qp->lock);
	target_complete_plain(qp, rq_take_first(&qp->rq), 1, &qp->rq.returned, 0, false,
			      5);
	lock_give(&qp->lock);
	assert_int_equal(fix_recv(qp, 8), -ENOMEM);
	for (uint64_t i = 0; i < 8; i++) {
		fix_wc(f->rcq, i, IBV_WC_SUCCESS);
		assert_int_equal(fix_recv(qp, 8 + i), 0);
		assert_int_equal(fix_recv(qp, 99), -ENOMEM);
	}
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

/* --- an SRQ ------------------------------------------------------------------ */

struct shared {
	struct fix *f;
	struct srq *srq;
	struct cq *cq[2];
	struct qp *qp[2];
};

/* Two QPs, with a receive CQ each. */
static struct shared share(void)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct shared s = { .f = fix_open(16) };

	assert_int_equal(srq_create(&s.f->ctx, s.f->pd, &sa, &s.srq), 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr_ex a = fix_init(s.f, IBV_QPT_RC);

		assert_int_equal(cq_create(&s.f->ctx, 4, NULL, NULL, &s.cq[i]), 0);
		a.srq = &s.srq->ibv;
		a.recv_cq = (struct ibv_cq *)&s.cq[i]->ex;
		assert_int_equal(qp_create(&s.f->ctx, &a, &fake_transport, &s.qp[i]), 0);
		fix_bring(s.qp[i], IBV_QPS_RTS);
	}
	return s;
}

static void unshare_all(struct shared *s)
{
	for (int i = 0; i < 2; i++) {
		if (s->qp[i])
			assert_int_equal(qp_destroy(s->qp[i]), 0);
		assert_int_equal(cq_destroy(s->cq[i]), 0);
	}
	assert_int_equal(srq_destroy(s->srq), 0);
	fix_close(s->f);
}

/* Posts receives to the SRQ until it is full; returns their number. */
static unsigned fill(struct srq *srq)
{
	struct ibv_recv_wr wr = { .wr_id = 1 };
	unsigned n = 0;

	while (srq_post(srq, &wr, NULL) == 0)
		n++;
	return n;
}

static void an_srq_gets_places_back_from_every_cq(void **state)
{
	struct shared s = share();
	struct ibv_srq_attr a = { .max_wr = 2 };

	(void)state;
	assert_int_equal(fill(s.srq), 4);
	assert_true(receive(s.qp[0]) && receive(s.qp[1]) && receive(s.qp[1]));
	assert_int_equal(fill(s.srq), 0);
	fix_wc(s.cq[1], 1, IBV_WC_SUCCESS);
	assert_int_equal(fill(s.srq), 1);
	fix_wc(s.cq[0], 1, IBV_WC_SUCCESS);
	/* Three places are occupied, two by receives that wait. */
	assert_int_equal(srq_modify(s.srq, &a, IBV_SRQ_MAX_WR), -EINVAL);
	a.max_wr = 8;
	assert_int_equal(srq_modify(s.srq, &a, IBV_SRQ_MAX_WR), 0);
	assert_int_equal(fill(s.srq), 5);
	fix_wc(s.cq[1], 1, IBV_WC_SUCCESS);
	assert_int_equal(fill(s.srq), 1);
	unshare_all(&s);
}

static void an_srq_gets_back_what_a_qp_leaves(void **state)
{
	struct shared s = share();
	struct rwqe w;

	(void)state;
	assert_int_equal(fill(s.srq), 4);
	assert_true(receive(s.qp[0]) && receive(s.qp[1]));
	assert_true(begin(s.qp[0], &w));
	assert_int_equal(fix_step(s.qp[0], IBV_QPS_RESET), 0);
	assert_int_equal(fill(s.srq), 2); /* completed, begun */
	assert_true(begin(s.qp[1], &w));
	assert_int_equal(qp_destroy(s.qp[1]), 0);
	s.qp[1] = NULL;
	assert_int_equal(fill(s.srq), 2);
	fix_bring(s.qp[0], IBV_QPS_RTS);
	assert_true(begin(s.qp[0], &w));
	break_qp(s.qp[0]);
	assert_int_equal(fill(s.srq), 0);
	fix_wc(s.cq[0], 1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(fill(s.srq), 1);
	unshare_all(&s);
}

/* --- whatever happens ---------------------------------------------------------- */

enum { QPS = 3, DEPTH = 8 };

/* polls: does the program poll? */
static void some_event(struct fix *f, struct qp *qp[], bool polls, struct prng *r)
{
	const unsigned i = (unsigned)rand_below(r, QPS);
	struct ibv_wc wc[4];

	switch (rand_below(r, 8)) {
	case 0:
	case 1:
		(void)fix_send(qp[i], i, rand_below(r, 3) ? 0 : IBV_SEND_SIGNALED);
		break;
	case 2:
		(void)fix_recv(qp[i], i);
		break;
	case 3:
	case 4:
		if (qp[i]->sq.tail != qp[i]->sq.head)
			succeed(qp[i]);
		break;
	case 5:
		(void)receive(qp[i]);
		break;
	case 6:
		if (polls)
			(void)cq_poll(f->scq, (int)rand_below(r, 5), wc);
		break;
	default:
		if (rand_below(r, 40) != 0)
			break;
		if (rand_below(r, 2))
			break_qp(qp[i]);
		assert_int_equal(fix_step(qp[i], IBV_QPS_RESET), 0);
		fix_bring(qp[i], IBV_QPS_RTS);
	}
}

/* The places in entries of the CQ and those of requests without one are all that are
 * occupied. */
static void all_places_are_somewhere(const struct cq *cq, struct qp *qp[])
{
	for (unsigned i = 0; i < QPS; i++) {
		const struct sq *sq = &qp[i]->sq;
		const struct rq *rq = &qp[i]->rq;
		uint32_t sends = sq->head - sq->tail + sq->uncovered,
			 receives = rq->head - rq->tail;

		for (uint32_t at = cq->tail; at != cq->head; at++) {
			const struct cqe *e = &cq->ring[at & (cq->size - 1)];

			sends += e->queue == &sq->returned ? e->places : 0;
			receives += e->queue == &rq->returned ? e->places : 0;
		}
		assert_int_equal(sends, sq->head - sq->returned);
		assert_int_equal(receives, rq_used(rq));
		assert_true(sends <= DEPTH && receives <= DEPTH);
	}
}

/* The CQ is exactly as large as the queues of its QPs. */
static void a_cq_as_large_as_its_queues_is_never_overrun(void **state)
{
	struct fix *f = fix_open(2 * DEPTH * QPS);
	struct qp *qp[QPS];
	struct prng r;

	(void)state;
	rand_seed(&r, 9);
	for (unsigned i = 0; i < QPS; i++) {
		struct ibv_qp_init_attr_ex a = fix_init(f, IBV_QPT_RC);

		a.recv_cq = a.send_cq;
		assert_int_equal(qp_create(&f->ctx, &a, &fake_transport, &qp[i]), 0);
		fix_bring(qp[i], IBV_QPS_RTS);
	}
	for (unsigned n = 0; n < 200000; n++) {
		some_event(f, qp, n % 2000 >= 1000, &r);
		all_places_are_somewhere(f->scq, qp);
		assert_false(f->scq->overrun);
	}
	for (unsigned i = 0; i < QPS; i++)
		assert_int_equal(qp_destroy(qp[i]), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_completion_covers_unsignalled_requests),
		cmocka_unit_test(a_flush_covers_what_was_executed),
		cmocka_unit_test(receives_return_one_by_one),
		cmocka_unit_test(an_srq_gets_places_back_from_every_cq),
		cmocka_unit_test(an_srq_gets_back_what_a_qp_leaves),
		cmocka_unit_test(a_cq_as_large_as_its_queues_is_never_overrun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
