/* SPDX-License-Identifier: BSD-2-Clause */
/* events.c - overflow, draining and limits: the errors and states that an event
 * reports. */
#include "errors.h"

#include <fcntl.h>
#include <poll.h>

static struct duo d;

static int write_one(struct ibv_qp *qp, uint64_t id, unsigned flags)
{
	struct ibv_sge s = local(d.s, 0, 64);
	struct ibv_send_wr wr = wr_of(IBV_WR_RDMA_WRITE, &s, id);

	wr.wr.rdma.remote_addr = (uintptr_t)d.s->buf + TARGET_AT;
	wr.wr.rdma.rkey = d.s->mr->rkey;
	wr.send_flags = flags;
	return post_send(qp, &wr);
}

static int send_one(struct ibv_qp *qp, uint64_t id, unsigned flags)
{
	struct ibv_sge s = local(d.s, 0, 64);
	struct ibv_send_wr wr = wr_of(IBV_WR_SEND, &s, id);

	wr.send_flags = flags;
	return post_send(qp, &wr);
}

static int recv_one(struct ibv_qp *qp, uint64_t id)
{
	struct ibv_sge s = local(d.s, RECV_AT, 64);
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &s, .num_sge = 1 };

	return ibv_post_recv(qp, &wr, &bad);
}

static int to(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };

	return ibv_modify_qp(qp, &a, IBV_QP_STATE);
}

static void wait_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	uint64_t end = now_ms() + 5000;

	while (state_of(qp) != state && now_ms() < end)
		usleep(1000);
	CHECK(state_of(qp) == state);
}

/* --- CQ overflow --------------------------------------------------------- */

/* Expects an event of the CQ and one of the QP that lost a completion. They come from
 * different places, so in either order. */
static void overrun_events(struct ibv_cq *cq, struct ibv_qp *qp)
{
	bool of_cq = false, of_qp = false;
	void *about;

	for (int i = 0; i < 2; i++) {
		int type = next_event(d.s, &about, 10000);

		CHECK(type == IBV_EVENT_CQ_ERR || type == IBV_EVENT_QP_FATAL);
		if (type == IBV_EVENT_CQ_ERR)
			of_cq = about == cq;
		else
			of_qp = about == qp;
	}
	CHECK(of_cq && of_qp);
	expect_no_event(d.s);
	log_must("completion queue [0-9]+ is overrun");
	CHECK(state_of(qp) == IBV_QPS_ERR);
}

/* Four completions fit, and can still be polled. */
static void send_cq_overflow(void)
{
	d = duo_make(IBV_QPT_RC, 4, 64, NULL);
	duo_up(&d);
	for (uint64_t i = 0; i < 8; i++)
		CHECK(!write_one(d.a, i, IBV_SEND_SIGNALED));
	overrun_events(d.acq, d.a);
	log_must("%A: its send completion queue is full");
	for (uint64_t i = 0; i < 4; i++)
		expect(d.acq, i, IBV_WC_SUCCESS, V_NONE);
	expect_none(d.acq);
	CHECK(state_of(d.b) == IBV_QPS_RTS);
	duo_drop(&d);
}

static void recv_cq_overflow(void)
{
	struct ibv_wc wc;

	d = duo_make(IBV_QPT_RC, 64, 4, NULL);
	duo_up(&d);
	for (uint64_t i = 0; i < 8; i++)
		CHECK(!recv_one(d.b, 100 + i));
	for (uint64_t i = 0; i < 5; i++)
		CHECK(!send_one(d.a, i, IBV_SEND_SIGNALED));
	overrun_events(d.bcq, d.b);
	log_must("%B: its receive completion queue is full");
	for (uint64_t i = 0; i < 4; i++)
		expect(d.bcq, 100 + i, IBV_WC_SUCCESS, V_NONE);
	expect_none(d.bcq);
	/* The sender cannot know of the overflow: its requests succeed or time out. */
	do
		CHECK(poll_one(d.acq, &wc, 10000));
	while (wc.status == IBV_WC_SUCCESS);
	CHECK(wc.status == IBV_WC_RETRY_EXC_ERR);
	duo_drop(&d);
}

/* Two QPs use the CQ: the QP that loses no completion is not harmed. */
static void cq_overflow_harms_one(void)
{
	struct ibv_qp *other;
	struct ibv_qp_attr a;
	struct ibv_wc wc;

	d = duo_make(IBV_QPT_RC, 4, 64, NULL);
	duo_up(&d);
	other = duo_qp(d.s, d.acq, IBV_QPT_RC, NULL);
	a = self_attr(d.s, other->qp_num);
	for (int i = IBV_QPS_INIT; i <= IBV_QPS_RTS; i++)
		qp_to(other, &a, (enum ibv_qp_state)i);
	for (uint64_t i = 0; i < 8; i++)
		CHECK(!write_one(d.a, i, IBV_SEND_SIGNALED));
	overrun_events(d.acq, d.a);
	CHECK(state_of(other) == IBV_QPS_RTS);
	CHECK(!write_one(other, 50, 0)); /* an unsignaled request needs no completion */
	CHECK(!poll_one(side(true)->rcq, &wc, 20));
	CHECK(state_of(other) == IBV_QPS_RTS);
	CHECK(!ibv_destroy_qp(other));
	duo_drop(&d);
}

/* A small CQ that is polled in time carries many completions. */
static void small_cq_is_enough(void)
{
	d = duo_make(IBV_QPT_RC, 1, 64, NULL);
	duo_up(&d);
	for (uint64_t i = 0; i < 200; i++) {
		CHECK(!write_one(d.a, i, IBV_SEND_SIGNALED));
		expect(d.acq, i, IBV_WC_SUCCESS, V_NONE);
	}
	duo_drop(&d);
}

static void overrun_that_is_ignored(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 2,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
	};
	struct ibv_cq_ex *cq;
	struct ibv_qp_attr a;
	struct ibv_wc wc;
	struct ibv_qp *qp;

	d = duo_make(IBV_QPT_RC, 16, 16, NULL);
	CHECK((cq = ibv_create_cq_ex(d.s->ctx, &attr)));
	qp = duo_qp(d.s, ibv_cq_ex_to_cq(cq), IBV_QPT_RC, NULL);
	a = self_attr(d.s, qp->qp_num);
	for (int i = IBV_QPS_INIT; i <= IBV_QPS_RTS; i++)
		qp_to(qp, &a, (enum ibv_qp_state)i);
	for (uint64_t i = 0; i < 8; i++)
		CHECK(!write_one(qp, i, IBV_SEND_SIGNALED));
	CHECK(!poll_one(d.acq, &wc, 50));
	expect_no_event(d.s);
	CHECK(state_of(qp) == IBV_QPS_RTS);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	duo_drop(&d);
}

/* --- SQD ----------------------------------------------------------------- */

static void drained(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_qp_init_attr init;
	struct ibv_wc wc;

	d = duo_make(IBV_QPT_RC, 64, 64, NULL);
	duo_up(&d);
	/* The event comes at once if there is nothing to drain. */
	CHECK(!ibv_modify_qp(d.a, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	expect_event(d.s, IBV_EVENT_SQ_DRAINED, d.a);
	CHECK(!ibv_query_qp(d.a, &a, -1, &init) && !a.sq_draining);
	CHECK(!to(d.a, IBV_QPS_RTS));

	/* The request that has begun ends first: no receive is posted yet. */
	CHECK(!send_one(d.a, 1, IBV_SEND_SIGNALED));
	CHECK(!poll_one(d.acq, &wc, 20));
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	CHECK(!ibv_modify_qp(d.a, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	CHECK(!send_one(d.a, 2, IBV_SEND_SIGNALED));
	CHECK(!ibv_query_qp(d.a, &a, -1, &init) && a.sq_draining);
	CHECK(next_event(d.s, NULL, 20) < 0);
	CHECK(!recv_one(d.b, 100) && !recv_one(d.b, 101));
	expect(d.acq, 1, IBV_WC_SUCCESS, V_NONE);
	expect_event(d.s, IBV_EVENT_SQ_DRAINED, d.a);
	CHECK(!poll_one(d.acq, &wc, 20)); /* request 2 is queued until RTS */
	CHECK(!to(d.a, IBV_QPS_RTS));
	expect(d.acq, 2, IBV_WC_SUCCESS, V_NONE);

	/* Without the notification flag no event comes. */
	CHECK(!to(d.a, IBV_QPS_SQD));
	CHECK(next_event(d.s, NULL, 20) < 0);
	duo_drop(&d);
}

/* --- SRQ ----------------------------------------------------------------- */

static struct ibv_srq *srq_make(uint32_t wr)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = wr, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(side(false)->pd, &init);

	CHECK(srq);
	return srq;
}

static void srq_recv(struct ibv_srq *srq, uint64_t id)
{
	struct ibv_sge s = local(side(false), RECV_AT, 64);
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &s, .num_sge = 1 };

	CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
}

static void srq_limit(void)
{
	struct ibv_srq_attr attr = { .srq_limit = 3 };
	struct ibv_srq *srq = srq_make(16);

	d = duo_make(IBV_QPT_RC, 64, 64, srq);
	duo_up(&d);
	for (uint64_t i = 0; i < 5; i++)
		srq_recv(srq, i);
	CHECK(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	for (uint64_t i = 0; i < 2; i++) {
		CHECK(!send_one(d.a, i, IBV_SEND_SIGNALED));
		expect(d.acq, i, IBV_WC_SUCCESS, V_NONE);
		expect(d.bcq, i, IBV_WC_SUCCESS, V_NONE);
	}
	expect_no_event(d.s); /* three receives are left: no event yet */
	CHECK(!ibv_query_srq(srq, &attr) && attr.srq_limit == 3);
	CHECK(!send_one(d.a, 2, IBV_SEND_SIGNALED));
	expect(d.bcq, 2, IBV_WC_SUCCESS, V_NONE);
	expect_event(d.s, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	CHECK(!ibv_query_srq(srq, &attr) && attr.srq_limit == 0);
	CHECK(!send_one(d.a, 3, IBV_SEND_SIGNALED));
	expect(d.bcq, 3, IBV_WC_SUCCESS, V_NONE);
	expect_no_event(d.s); /* one event each time that the limit is armed */
	attr.srq_limit = 2;   /* one receive is left: it is told of at once */
	CHECK(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	expect_event(d.s, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	expect(d.acq, 2, IBV_WC_SUCCESS, V_NONE);
	expect(d.acq, 3, IBV_WC_SUCCESS, V_NONE);
	duo_drop(&d);
	CHECK(!ibv_destroy_srq(srq));
}

/* Receives that are left in the SRQ stay there for other QPs. */
static void last_wqe(void)
{
	struct ibv_srq *srq = srq_make(16);
	struct ibv_qp *other;
	struct ibv_qp_attr a;

	d = duo_make(IBV_QPT_RC, 64, 64, srq);
	duo_up(&d);
	srq_recv(srq, 1);
	CHECK(!to(d.b, IBV_QPS_ERR));
	expect_event(d.s, IBV_EVENT_QP_LAST_WQE_REACHED, d.b);
	CHECK(!to(d.b, IBV_QPS_ERR));
	expect_no_event(d.s); /* one event only */
	expect_none(d.bcq);
	other = duo_qp(d.s, d.bcq, IBV_QPT_RC, srq);
	a = self_attr(d.s, other->qp_num);
	for (int i = IBV_QPS_INIT; i <= IBV_QPS_RTS; i++)
		qp_to(other, &a, (enum ibv_qp_state)i);
	CHECK(!send_one(other, 2, 0));
	expect(d.bcq, 1, IBV_WC_SUCCESS, V_NONE);
	CHECK(!ibv_destroy_qp(other));
	duo_drop(&d);
	CHECK(!ibv_destroy_srq(srq));
}

/* The peer's request is at fault: the QP gets the event of the fault and
 * LAST_WQE_REACHED; other QPs of the SRQ go on. */
static void srq_and_fault(void)
{
	struct ibv_srq *srq = srq_make(16);
	bool access = false, last = false;
	void *about;

	d = duo_make(IBV_QPT_RC, 64, 64, srq);
	duo_up(&d);
	srq_recv(srq, 1);
	d.s->mr->rkey ^= 1;
	CHECK(!write_one(d.a, 5, IBV_SEND_SIGNALED));
	d.s->mr->rkey ^= 1;
	expect(d.acq, 5, IBV_WC_REM_ACCESS_ERR, V_REM_ACCESS);
	for (int i = 0; i < 2; i++) {
		int type = next_event(d.s, &about, 10000);

		CHECK(about == d.b);
		access |= type == IBV_EVENT_QP_ACCESS_ERR;
		last |= type == IBV_EVENT_QP_LAST_WQE_REACHED;
	}
	CHECK(access && last);
	expect_none(d.bcq);
	duo_drop(&d);
	CHECK(!ibv_destroy_srq(srq));
}

/* --- connections --------------------------------------------------------- */

static void established(void)
{
	struct ibv_qp_attr a, b;

	d = duo_make(IBV_QPT_RC, 64, 64, NULL);
	a = self_attr(d.s, d.b->qp_num);
	b = self_attr(d.s, d.a->qp_num);
	for (int i = IBV_QPS_INIT; i <= IBV_QPS_RTS; i++)
		qp_to(d.a, &a, (enum ibv_qp_state)i);
	qp_to(d.b, &b, IBV_QPS_INIT);
	qp_to(d.b, &b, IBV_QPS_RTR);
	CHECK(!recv_one(d.b, 100) && !recv_one(d.b, 101));
	CHECK(!send_one(d.a, 1, IBV_SEND_SIGNALED) &&
	      !send_one(d.a, 2, IBV_SEND_SIGNALED));
	expect_event(d.s, IBV_EVENT_COMM_EST, d.b);
	expect(d.acq, 1, IBV_WC_SUCCESS, V_NONE);
	expect(d.acq, 2, IBV_WC_SUCCESS, V_NONE);
	expect(d.bcq, 100, IBV_WC_SUCCESS, V_NONE);
	expect(d.bcq, 101, IBV_WC_SUCCESS, V_NONE);
	expect_no_event(d.s); /* one event only */
	qp_to(d.b, &b, IBV_QPS_RTS);
	duo_drop(&d);
}

/* rnr_retry 7 retries for ever. */
static void rnr_for_ever(void)
{
	struct ibv_wc wc;

	d = duo_make(IBV_QPT_RC, 64, 64, NULL);
	duo_up(&d);
	CHECK(!send_one(d.a, 1, IBV_SEND_SIGNALED));
	CHECK(!poll_one(d.acq, &wc, 300)); /* hundreds of RNR NAKs */
	CHECK(state_of(d.a) == IBV_QPS_RTS);
	CHECK(!recv_one(d.b, 100));
	expect(d.acq, 1, IBV_WC_SUCCESS, V_NONE);
	expect(d.bcq, 100, IBV_WC_SUCCESS, V_NONE);
	duo_drop(&d);
}

/* The receiver's QP goes to ERR: the sender finds out by timeouts. */
static void peer_to_error_in_traffic(void)
{
	struct ibv_qp_attr a;
	struct ibv_wc wc;

	d = duo_make(IBV_QPT_RC, 64, 64, NULL);
	a = self_attr(d.s, d.b->qp_num);
	duo_up(&d);
	CHECK(!to(d.a, IBV_QPS_SQD));
	a.timeout = 12;
	a.retry_cnt = 1;
	CHECK(!ibv_modify_qp(d.a, &a, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT));
	CHECK(!to(d.a, IBV_QPS_RTS));
	CHECK(!send_one(d.a, 1, IBV_SEND_SIGNALED)); /* waits for a receive (RNR) */
	CHECK(!poll_one(d.acq, &wc, 10));
	CHECK(!to(d.b, IBV_QPS_ERR));
	expect(d.acq, 1, IBV_WC_RETRY_EXC_ERR, V_TIMEOUT);
	wait_state(d.a, IBV_QPS_ERR);
	duo_drop(&d);
}

const struct local_row event_rows[] = {
	{ "send_cq_overflow", send_cq_overflow },
	{ "recv_cq_overflow", recv_cq_overflow },
	{ "cq_overflow_harms_one", cq_overflow_harms_one },
	{ "small_cq_is_enough", small_cq_is_enough },
	{ "cq_overrun_ignored", overrun_that_is_ignored },
	{ "sq_drained", drained },
	{ "srq_limit", srq_limit },
	{ "srq_last_wqe", last_wqe },
	{ "srq_and_fault", srq_and_fault },
	{ "comm_est", established },
	{ "rnr_retry_7", rnr_for_ever },
	{ "peer_to_error_in_traffic", peer_to_error_in_traffic },
	{ NULL, NULL },
};
