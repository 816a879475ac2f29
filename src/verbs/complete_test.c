/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/complete.h"
#include "verbs/qp_fixture.h"

static void succeed(struct qp *qp)
{
	lock_take(&qp->lock);
	sq_complete(qp, IBV_WC_SUCCESS, VERR_NONE, 5);
	lock_give(&qp->lock);
}

static void break_qp(struct qp *qp, bool sq_only, int event)
{
	lock_take(&qp->lock);
	qp_fail(qp, sq_only, event, 5);
	lock_give(&qp->lock);
}

static bool pop(struct qp *qp, struct rwqe *w)
{
	bool got;

	lock_take(&qp->lock);
	got = qp_pop_recv(qp, w);
	lock_give(&qp->lock);
	return got;
}

static void received(struct qp *qp, struct rwqe *w, enum ibv_wc_status status)
{
	struct cqe cqe = { .status = status,
			   .opcode = IBV_WC_RECV,
			   .byte_len = 9,
			   .flags = IBV_WC_WITH_IMM,
			   .imm = 4 };

	lock_take(&qp->lock);
	rq_complete(qp, w, &cqe, false);
	lock_give(&qp->lock);
}

static struct srq *make_srq(struct fix *f)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct srq *srq;

	assert_int_equal(srq_create(&f->ctx, f->pd, &a, &srq), 0);
	return srq;
}

static void empty(struct cq *cq)
{
	assert_true(cq_empty(cq));
}

static void only_what_is_signalled_or_fails_is_told(void **state)
{
	struct fix *f = fix_open(16);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);
	struct ibv_wc wc;

	(void)state;
	fix_bring(qp, IBV_QPS_RTS);
	assert_int_equal(fix_send(qp, 1, 0), 0);
	assert_int_equal(fix_send(qp, 2, IBV_SEND_SIGNALED), 0);
	assert_int_equal(fix_send(qp, 3, 0), 0);
	succeed(qp);
	empty(f->scq);
	succeed(qp);
	wc = fix_wc(f->scq, 2, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
	assert_int_equal(wc.qp_num, qp->qpn);
	lock_take(&qp->lock);
	sq_complete(qp, IBV_WC_REM_ACCESS_ERR, VERR_REMOTE_ACCESS, 5);
	lock_give(&qp->lock);
	wc = fix_wc(f->scq, 3, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(wc.vendor_err, VERR_REMOTE_ACCESS);
	empty(f->scq);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void bytes_are_told_where_they_came_in(void **state)
{
	struct fix *f = fix_open(16);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);
	struct ibv_sge sge = { .length = 40 };
	/* clang-format off */
	struct ibv_send_wr wr[2] = {
		{ .wr_id = 1, .next = &wr[1], .opcode = IBV_WR_RDMA_READ },
		{ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE },
	}, *bad;

	(void)state;
	fix_bring(qp, IBV_QPS_RTS);
	for (int i = 0; i < 2; i++) {
		wr[i].sg_list = &sge;
		wr[i].num_sge = 1;
		wr[i].send_flags = IBV_SEND_SIGNALED;
	}
	assert_int_equal(qp_post_send(qp, wr, &bad), 0);
	succeed(qp);
	succeed(qp);
	assert_int_equal(fix_wc(f->scq, 1, IBV_WC_SUCCESS).byte_len, 40);
	assert_int_equal(fix_wc(f->scq, 2, IBV_WC_SUCCESS).byte_len, 0);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void an_rc_qp_fails_whole_in_order_and_once(void **state)
{
	struct fix *f = fix_open(16);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct rwqe w;

	(void)state;
	fix_bring(qp, IBV_QPS_RTS);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(fix_send(qp, i, 0), 0);
		assert_int_equal(fix_recv(qp, 10 + i), 0);
	}
	assert_true(pop(qp, &w));		/* this receive is under way */
	break_qp(qp, true, IBV_EVENT_QP_FATAL);
	assert_int_equal(qp->state, IBV_QPS_ERR);
	/* The state that the program asked for. */
	assert_int_equal(qp->ex.qp_base.state, IBV_QPS_RTS);
	assert_int_equal(qp_query(qp, &attr, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_ERR);
	assert_int_equal(qp->ex.qp_base.state, IBV_QPS_RTS);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(fix_wc(f->scq, i, IBV_WC_WR_FLUSH_ERR).vendor_err,
				 VERR_FLUSHED);
		assert_int_equal(fix_wc(f->rcq, 10 + i, IBV_WC_WR_FLUSH_ERR).qp_num,
				 qp->qpn);
	}
	/* Too late: this receive was flushed already. */
	received(qp, &w, IBV_WC_SUCCESS);
	empty(f->scq);
	empty(f->rcq);
	assert_int_equal(fix_event(f, &qp->ex), IBV_EVENT_QP_FATAL);
	break_qp(qp, false, IBV_EVENT_QP_FATAL);
	assert_int_equal(fix_event(f, &qp->ex), -1);
	assert_false(pop(qp, &w));
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void a_datagram_qp_loses_its_send_queue_only(void **state)
{
	struct fix *f = fix_open(16);
	struct qp *qp = fix_qp(f, IBV_QPT_UC);
	struct ibv_wc wc;
	struct rwqe w;

	(void)state;
	fix_bring(qp, IBV_QPS_RTS);
	assert_int_equal(fix_send(qp, 1, 0), 0);
	assert_int_equal(fix_recv(qp, 2), 0);
	break_qp(qp, true, -1);
	assert_int_equal(qp->state, IBV_QPS_SQE);
	fix_wc(f->scq, 1, IBV_WC_WR_FLUSH_ERR);
	empty(f->rcq);
	assert_int_equal(fix_send(qp, 3, 0), 0);
	fix_wc(f->scq, 3, IBV_WC_WR_FLUSH_ERR);
	assert_true(pop(qp, &w));
	received(qp, &w, IBV_WC_SUCCESS);
	wc = fix_wc(f->rcq, 2, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 9);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, 4);
	assert_int_equal(fix_step(qp, IBV_QPS_RTS), 0);
	assert_int_equal(fix_send(qp, 4, IBV_SEND_SIGNALED), 0);
	empty(f->scq);
	break_qp(qp, false, -1);
	assert_int_equal(qp->state, IBV_QPS_ERR);
	fix_wc(f->scq, 4, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void a_full_cq_fails_the_qp_and_no_other(void **state)
{
	struct fix *f = fix_open(1);
	struct qp *qp = fix_qp(f, IBV_QPT_RC), *other = fix_qp(f, IBV_QPT_RC);
	struct ibv_async_event ev;

	(void)state;
	fix_bring(qp, IBV_QPS_RTS);
	fix_bring(other, IBV_QPS_RTS);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(fix_send(qp, i, IBV_SEND_SIGNALED), 0);
	succeed(qp);
	assert_int_equal(qp->state, IBV_QPS_RTS);
	succeed(qp);
	assert_int_equal(qp->state, IBV_QPS_ERR);
	assert_int_equal(qp->sq.tail, qp->sq.head);
	assert_int_equal(other->state, IBV_QPS_RTS);
	assert_int_equal(async_get(&f->ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_CQ_ERR);
	async_ack(&ev);
	assert_int_equal(fix_event(f, &qp->ex), IBV_EVENT_QP_FATAL);
	assert_int_equal(fix_event(f, &qp->ex), -1);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(qp_destroy(other), 0);
	fix_close(f);
}

static void the_receive_side_overruns_as_well(void **state)
{
	struct fix *f = fix_open(1);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);
	struct rwqe w;

	(void)state;
	fix_bring(qp, IBV_QPS_RTR);
	for (uint64_t i = 0; i < 2; i++) {
		assert_int_equal(fix_recv(qp, i), 0);
		assert_int_equal(qp->state, IBV_QPS_RTR);
		assert_true(pop(qp, &w));
		received(qp, &w, IBV_WC_SUCCESS);
	}
	assert_int_equal(qp->state, IBV_QPS_ERR);
	fix_wc(f->rcq, 0, IBV_WC_SUCCESS);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void the_last_wqe_of_an_srq_is_told_once(void **state)
{
	struct fix *f = fix_open(16);
	struct srq *srq = make_srq(f);
	struct ibv_qp_init_attr_ex a = fix_init(f, IBV_QPT_RC);
	struct ibv_recv_wr wr[2] = { { .wr_id = 1, .next = &wr[1] }, { .wr_id = 2 } };
	struct ibv_recv_wr *bad;
	struct rwqe w;
	struct qp *qp;

	(void)state;
	a.srq = &srq->ibv;
	assert_int_equal(qp_create(&f->ctx, &a, &fake_transport, &qp), 0);
	fix_bring(qp, IBV_QPS_RTS);
	assert_int_equal(srq_post(srq, wr, &bad), 0);
	assert_true(pop(qp, &w));
	break_qp(qp, false, -1);
	fix_wc(f->rcq, 1, IBV_WC_WR_FLUSH_ERR);	/* this receive was under way */
	empty(f->rcq);				/* receive 2 stays for other QPs */
	assert_int_equal(fix_event(f, &qp->ex), IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_int_equal(fix_step(qp, IBV_QPS_ERR), 0);
	assert_int_equal(fix_event(f, &qp->ex), -1);
	assert_true(srq_pop(srq, &w));
	assert_int_equal(w.wr_id, 2);
	/* The QP has no receive queue of its own. */
	assert_int_equal(fix_recv(qp, 3), -EINVAL);
	/* The event comes again after the QP went through RESET. */
	assert_int_equal(fix_step(qp, IBV_QPS_RESET), 0);
	fix_bring(qp, IBV_QPS_RTS);
	assert_int_equal(fix_step(qp, IBV_QPS_ERR), 0);
	assert_int_equal(fix_event(f, &qp->ex), IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(srq_destroy(srq), 0);
	fix_close(f);
}

static void receives_are_taken_where_the_state_receives(void **state)
{
	struct fix *f = fix_open(16);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);
	struct rwqe w;

	(void)state;
	assert_int_equal(fix_step(qp, IBV_QPS_INIT), 0);
	assert_int_equal(fix_recv(qp, 1), 0);
	assert_false(pop(qp, &w));
	fix_bring(qp, IBV_QPS_RTR);
	assert_true(pop(qp, &w));
	assert_false(pop(qp, &w));
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void a_qp_in_reset_cannot_fail(void **state)
{
	struct fix *f = fix_open(16);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);

	(void)state;
	break_qp(qp, false, IBV_EVENT_QP_FATAL);
	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_int_equal(fix_event(f, &qp->ex), -1);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_is_signalled_or_fails_is_told),
		cmocka_unit_test(bytes_are_told_where_they_came_in),
		cmocka_unit_test(an_rc_qp_fails_whole_in_order_and_once),
		cmocka_unit_test(a_datagram_qp_loses_its_send_queue_only),
		cmocka_unit_test(a_full_cq_fails_the_qp_and_no_other),
		cmocka_unit_test(the_receive_side_overruns_as_well),
		cmocka_unit_test(the_last_wqe_of_an_srq_is_told_once),
		cmocka_unit_test(receives_are_taken_where_the_state_receives),
		cmocka_unit_test(a_qp_in_reset_cannot_fail),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
