/* SPDX-License-Identifier: BSD-2-Clause */
/* complete.c - how work requests end: completions, flushes, failure. */
#include "verbs/complete.h"

#include <assert.h>

#include "sys/clock.h"
#include "sys/log.h"
#include "verbs/exports.h"
#include "verbs/failure.h"
#include "verbs/qp.h"
#include "verbs/srq_hooks.h"
#include "verbs/wr_op.h"

void qp_set_state(struct qp *qp, enum ibv_qp_state state)
{
	qp->state = state;
	qp->attr.qp_state = state;
	if (state != IBV_QPS_SQD)
		qp->sqd.draining = qp->sqd.notify = false;
	if (state == IBV_QPS_RESET)
		qp->recv.last_wqe = false;
}

/* --- send queue ---------------------------------------------------------- */

static inline bool is_told(const struct swqe *w, enum ibv_wc_status status)
{
	return status != IBV_WC_SUCCESS || w->flags & IBV_SEND_SIGNALED;
}

/* Returns false if the CQ is overrun. */
static inline bool tell_completion(struct qp *qp, const struct swqe *w,
				   enum ibv_wc_status status, enum verr verr,
				   uint64_t now) REQUIRES(qp->lock)
{
	const struct wr_op *op = wr_op(w->opcode);
	const struct cqe cqe = {
		.wr_id = w->wr_id,
		.now = now,
		.qp_num = qp->qpn,
		.status = status,
		.vendor_err = verr,
		.opcode = op->wc,
		.byte_len = op->traits & WR_RESULT ? w->length : 0,
		.places = sq_cover(&qp->sq),
		.queue = &qp->sq.returned,
	};

	return cq_push(qp->send_cq, &cqe, false);
}

/* Returns false if the CQ is overrun. */
static bool complete_oldest(struct qp *qp, enum ibv_wc_status status, enum verr verr,
			    uint64_t now) REQUIRES(qp->lock)
{
	const struct swqe *w = sq_at(&qp->sq, qp->sq.tail);

	assert(qp->sq.tail != qp->sq.head);
	if (status != IBV_WC_SUCCESS)
		failure_of_send(qp, w, status, verr);
	qp->sq.tail++;
	if (!is_told(w, status)) {
		qp->sq.uncovered++;
		return true;
	}
	if (!(w->flags & SWQE_OWN))
		return tell_completion(qp, w, status, verr, now);
	cq_return(qp->send_cq, &qp->sq.returned, 1);
	return qp->hooks->ended(qp, w, status, verr, now);
}

static void overrun(struct qp *qp, const char *which, uint64_t now) REQUIRES(qp->lock)
{
	if (qp->state == IBV_QPS_ERR)
		return;
	log_info("QP 0x%06x: its %s completion queue is full: the QP fails", qp->qpn,
		 which);
	qp_fail(qp, false, IBV_EVENT_QP_FATAL, now);
}

void sq_complete(struct qp *qp, enum ibv_wc_status status, enum verr verr, uint64_t now)
{
	if (!complete_oldest(qp, status, verr, now))
		overrun(qp, "send", now);
}

void sq_count_at_once(struct qp *qp, uint32_t n, uint64_t bytes)
{
	qp->sq.head += n;
	qp->sq.tail += n;
	qp->tp.traffic.done += n;
	qp->tp.traffic.done_bytes += bytes;
}

void sq_end_at_once(struct qp *qp, const struct ibv_send_wr *wr, uint32_t len,
		    enum ibv_wc_status status, enum verr verr, uint64_t now)
{
	const struct swqe w = {
		.wr_id = wr->wr_id,
		.opcode = (uint8_t)wr->opcode,
		.length = len,
		.remote_addr = wr->wr.rdma.remote_addr,
		.rkey = wr->wr.rdma.rkey,
	};

	if (status != IBV_WC_SUCCESS)
		failure_of_send(qp, &w, status, verr);
	if (!tell_completion(qp, &w, status, verr, now))
		overrun(qp, "send", now);
}

static void flush_sq(struct qp *qp, uint64_t now) REQUIRES(qp->lock)
{
	while (qp->sq.tail != qp->sq.head)
		complete_oldest(qp, IBV_WC_WR_FLUSH_ERR, VERR_FLUSHED, now);
}

/* --- receive queue ------------------------------------------------------- */

void qp_hold_recv(struct qp *qp, uint64_t wr_id, bool no_place)
{
	qp->recv.held = true;
	qp->recv.no_place = no_place;
	qp->recv.held_wr_id = wr_id;
}

/* Gives the completion of a receive its place. */
static inline void hold_place(struct qp *qp, struct cqe *cqe)
{
	qp->recv.srqs++;
	cqe->places = qp->srq ? PLACE_SHARED : 1;
	cqe->queue = qp->srq ? &qp->srq->rq.returned : &qp->rq.returned;
}

bool qp_pop_recv(struct qp *qp, struct rwqe *out)
{
	if (!qp_receives(qp))
		return false;
	if (!(qp->srq ? srq_pop(qp->srq, out) : rq_pop(&qp->rq, out)))
		return false;
	qp_hold_recv(qp, out->wr_id, false);
	return true;
}

void rq_push(struct qp *qp, const struct cqe *cqe, bool solicited)
{
	if (!cq_push(qp->recv_cq, cqe, solicited))
		overrun(qp, "receive", cqe->now);
}

void rq_complete(struct qp *qp, const struct rwqe *w, struct cqe *cqe, bool solicited)
{
	if (!qp->recv.held)
		return;
	qp->recv.held = false;
	cqe->wr_id = w->wr_id;
	cqe->qp_num = qp->qpn;
	if (!qp->recv.no_place)
		hold_place(qp, cqe);
	rq_push(qp, cqe, solicited);
}

static void flush_recv(struct qp *qp, uint64_t wr_id, bool no_place, uint64_t now)
{
	struct cqe cqe = {
		.wr_id = wr_id,
		.now = now,
		.qp_num = qp->qpn,
		.status = IBV_WC_WR_FLUSH_ERR,
		.vendor_err = VERR_FLUSHED,
		.opcode = IBV_WC_RECV,
	};

	if (!no_place)
		hold_place(qp, &cqe);
	cq_push(qp->recv_cq, &cqe, false);
}

/* Receives in an SRQ stay there for other QPs; qp->rq is empty then. */
static void flush_rq(struct qp *qp, uint64_t now)
{
	struct rq *rq = &qp->rq;

	if (qp->recv.held) {
		qp->recv.held = false;
		flush_recv(qp, qp->recv.held_wr_id, qp->recv.no_place, now);
	}
	for (; rq->tail != rq->head; rq->tail++)
		flush_recv(qp, rq->wqe[rq->tail & (rq->size - 1)].wr_id, false, now);
}

/* --- both ---------------------------------------------------------------- */

void qp_raise(struct qp *qp, enum ibv_event_type type)
{
	if (qp->raise)
		qp->raise(qp, type);
	else if (qp->ctx) /* else no program knows the QP */
		async_raise(qp->ctx, type, &qp->ex.qp_base);
}

/* IBTA 11.6.3.1: tells the program that the QP, now in ERR, takes no more receives
 * from its SRQ. */
static void raise_last_wqe(struct qp *qp)
{
	if (!qp->init.srq || qp->recv.last_wqe)
		return;
	qp->recv.last_wqe = true;
	qp_raise(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}

void qp_flush(struct qp *qp, uint64_t now)
{
	if (qp->state != IBV_QPS_ERR && qp->state != IBV_QPS_SQE)
		return;
	flush_sq(qp, now);
	if (qp->state != IBV_QPS_ERR)
		return;
	flush_rq(qp, now);
	if (qp->hooks)
		qp->hooks->flush(qp, now);
	raise_last_wqe(qp);
}

void qp_clear(struct qp *qp)
{
	if (qp->hooks)
		qp->hooks->clear(qp);
	/* The indices are not reset to 0, because other state derives from them. */
	qp->sq.tail = qp->sq.head;
	qp->rq.tail = qp->rq.head;
	/* What is left of a message will not come: the SRQ has its receive back. */
	if (qp->recv.held && !qp->recv.no_place && qp->srq)
		atomic_fetch_add_explicit(&qp->srq->rq.returned, 1, memory_order_relaxed);
	qp->recv.held = false;
}

void qp_free_places(struct qp *qp)
{
	qp->sq.uncovered = 0;
	atomic_store_explicit(&qp->sq.returned, qp->sq.head, memory_order_relaxed);
	atomic_store_explicit(&qp->rq.returned, qp->rq.head, memory_order_relaxed);
}

void qp_fail(struct qp *qp, bool sq_only, int event, uint64_t now)
{
	enum ibv_qp_state to = sq_only && !qp->reliable ? IBV_QPS_SQE : IBV_QPS_ERR;

	if (qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_ERR)
		return;
	qp_set_state(qp, to);
	qp_flush(qp, now);
	if (event >= 0)
		qp_raise(qp, (enum ibv_event_type)event);
}

void qp_forget_cqes(struct qp *qp)
{
	if (qp->send_cq)
		cq_forget(qp->send_cq, qp->qpn);
	/* Of borrowed receives the completions stay: they are the SRQ's. */
	if (qp->recv_cq != qp->send_cq && qp_has_receives(qp))
		cq_forget(qp->recv_cq, qp->qpn);
}

void qp_drained(struct qp *qp)
{
	if (qp->state != IBV_QPS_SQD || !qp->sqd.draining)
		return;
	qp->sqd.draining = false;
	if (qp->sqd.notify)
		qp_raise(qp, IBV_EVENT_SQ_DRAINED);
}
