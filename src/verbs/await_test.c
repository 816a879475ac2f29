/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/await.h"
#include "verbs/due.h"
#include "verbs/qp_fixture.h"

static void await(struct qp *qp, bool again)
{
	lock_take(&qp->lock);
	qp_await_recv(qp, again);
	lock_give(&qp->lock);
}

static void await_no_more(struct qp *qp)
{
	lock_take(&qp->lock);
	qp_await_no_recv(qp);
	lock_give(&qp->lock);
}

static bool awaits(struct qp *qp)
{
	bool yes;

	lock_take(&qp->lock);
	yes = qp_awaits_recv(qp);
	lock_give(&qp->lock);
	return yes;
}

/* Takes all due QPs, which must be these. */
static void assert_due(struct fix *f, struct qp *first, struct qp *second)
{
	turn_take(&f->core.turn);
	assert_ptr_equal(due_next(&f->core), first);
	assert_ptr_equal(due_next(&f->core), second);
	assert_null(due_next(&f->core));
	turn_give(&f->core.turn);
}

static void a_post_makes_the_qp_due_that_waits(void **state)
{
	struct fix *f = fix_open(16);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);

	(void)state;
	fix_bring(qp, IBV_QPS_RTS);
	(void)due_any(&f->core);
	assert_due(f, NULL, NULL);
	assert_int_equal(fix_recv(qp, 1), 0);
	assert_due(f, NULL, NULL);
	await(qp, false);
	assert_true(awaits(qp));
	assert_int_equal(fix_recv(qp, 2), 1);
	assert_false(awaits(qp));
	assert_due(f, qp, NULL);
	assert_int_equal(fix_recv(qp, 3), 0);
	await(qp, true);
	await_no_more(qp);
	assert_int_equal(fix_recv(qp, 4), 0);
	assert_due(f, NULL, NULL);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static int post(struct srq *srq, bool two)
{
	struct ibv_recv_wr more = { .wr_id = 1 }, wr = { .next = two ? &more : NULL },
			   *bad;

	return srq_post(srq, &wr, &bad);
}

static void take_all(struct srq *srq)
{
	struct rwqe w;

	while (srq_pop(srq, &w))
		;
}

/* As many become due as there are receives, those first that have waited longest. */
static void an_srq_calls_them_in_order(void **state)
{
	struct fix *f = fix_open(16);
	struct ibv_qp_init_attr_ex a = fix_init(f, IBV_QPT_RC);
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct qp *qp[4];
	struct srq *srq;

	(void)state;
	assert_int_equal(srq_create(&f->ctx, f->pd, &sa, &srq), 0);
	a.srq = &srq->ibv;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(qp_create(&f->ctx, &a, &fake_transport, &qp[i]), 0);
		fix_bring(qp[i], IBV_QPS_RTS);
	}
	assert_due(f, NULL, NULL);
	for (int i = 0; i < 3; i++)
		await(qp[i], false);
	assert_int_equal(post(srq, true), 1);
	assert_due(f, qp[0], qp[1]);
	assert_false(awaits(qp[0]));
	assert_true(awaits(qp[2]));
	/* Another QP took the receives: qp[1] comes before qp[2], and qp[3] behind. */
	take_all(srq);
	await(qp[1], true);
	await(qp[3], false);
	assert_int_equal(post(srq, false), 1);
	assert_due(f, qp[1], NULL);
	/* A receive that was posted in between is not overlooked. */
	await(qp[0], false);
	assert_false(awaits(qp[0]));
	assert_due(f, qp[0], NULL);
	await_no_more(qp[2]);
	await_no_more(qp[3]);
	assert_int_equal(post(srq, false), 0);
	assert_due(f, NULL, NULL);
	for (int i = 0; i < 4; i++)
		assert_int_equal(qp_destroy(qp[i]), 0);
	assert_int_equal(srq_destroy(srq), 0);
	fix_close(f);
}

/* For the transport of ends_while_called(): another thread posts to the SRQ just before
 * the QP that ends waits no more. */
static struct srq *posted_to;

static void close_late(struct qp *qp)
{
	qp_is_held(qp);
	assert_int_equal(post(posted_to, false), 1);
	qp_await_no_recv(qp);
	fake_close(qp);
}

/* The QP has become due, and must not be that any more when it is freed. */
static void ends_while_called(void **state)
{
	const struct transport closes_late = { .name = "fake",
					       .open = fake_open,
					       .close = close_late,
					       .enter = fake_enter };
	struct fix *f = fix_open(16);
	struct ibv_qp_init_attr_ex a = fix_init(f, IBV_QPT_RC);
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct srq *srq;
	struct qp *qp;

	(void)state;
	assert_int_equal(srq_create(&f->ctx, f->pd, &sa, &srq), 0);
	a.srq = &srq->ibv;
	posted_to = srq;
	assert_int_equal(qp_create(&f->ctx, &a, &closes_late, &qp), 0);
	fix_bring(qp, IBV_QPS_RTS);
	await(qp, false);
	assert_due(f, NULL, NULL);
	assert_int_equal(qp_destroy(qp), 0);
	assert_false(due_any(&f->core));
	assert_int_equal(srq_destroy(srq), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_post_makes_the_qp_due_that_waits),
		cmocka_unit_test(an_srq_calls_them_in_order),
		cmocka_unit_test(ends_while_called),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
