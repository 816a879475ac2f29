/* SPDX-License-Identifier: BSD-2-Clause */
/* ops.c - posts and polls; see ops.h.
 *
 * A request is in its queue before the NIC sees it, so that a thread which polls finds
 * it, and leaves the queue if the NIC refuses it. No lock is held while the NIC works. */
#include "check/ops.h"

#include <errno.h>
#include <poll.h>

#include "check/heard.h"
#include "check/object.h"
#include "check/queue.h"
#include "check/tell.h"
#include "check/ward.h"
#include "sys/cancel.h"
#include "sys/inside.h"
#include "verbs/wr_op.h"

/* Filled once, before anybody has an object whose operations lead here */
static struct ibv_context_ops real;
static struct lock real_lock;

static __thread int depth __attribute__((tls_model("initial-exec")));

bool ops_begin(void)
{
	return !inside_calls && ops_begin_told();
}

bool ops_begin_told(void)
{
	if (depth || check_is_child)
		return false;
	ops_enter();
	return true;
}

void ops_enter(void)
{
	depth++;
	atomic_signal_fence(memory_order_seq_cst);
}

void ops_end(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	depth--;
}

bool ops_gone(struct check_object *o, enum live_kind kind)
{
	if (!o->gone)
		return false;
	TELL(stale, o, kind, false);
	ops_end();
	return true;
}

/* --- sends ------------------------------------------------------------------ */

static void fill_send(const struct check_qp *qp, struct check_wr *w,
		      const struct ibv_send_wr *wr)
{
	const struct wr_op *op = wr_op(wr->opcode);
	const unsigned traits = op ? op->traits : 0;

	w->wr_id = wr->wr_id;
	w->opcode = (uint8_t)wr->opcode;
	w->flags = (uint8_t)(wr->send_flags | (qp->sig_all ? IBV_SEND_SIGNALED : 0));
	if (traits & WR_ATOMIC) {
		w->remote_addr = wr->wr.atomic.remote_addr;
		w->rkey = wr->wr.atomic.rkey;
	} else if (traits & WR_REMOTE) {
		w->remote_addr = wr->wr.rdma.remote_addr;
		w->rkey = wr->wr.rdma.rkey;
	}
}

static void fill_sges(const struct check_queue *q, struct check_wr *w, int n,
		      const struct ibv_sge *sge)
{
	w->asked_sge = (uint16_t)(n < 0 ? 0 : n > UINT16_MAX ? UINT16_MAX : n);
	if (n <= 0 || !sge)
		return;
	w->num_sge = (uint16_t)((uint32_t)n > q->max_sge ? q->max_sge : (uint32_t)n);
	for (unsigned i = 0; i < w->num_sge; i++) {
		w->sge[i] = sge[i];
		w->length += sge[i].length;
		w->huge |= sge[i].length >> HUGE_BITS;
	}
}

/* Does no part want to see it that looks at few? */
static bool is_usual(const struct check_qp *qp, const struct check_queue *q,
		     const struct check_wr *w)
{
	return !w->huge && q->posted &&
	       (!qp || (!qp->failed && qp->state != IBV_QPS_ERR && !qp->partial.is));
}

void ops_post(struct check_qp *qp, struct check_wr *w, uint64_t at, uint64_t number)
{
	w->at = at;
	w->number = number;
	if (__builtin_expect(!is_usual(qp, &qp->sq, w), 0))
		TELL(unusual, qp, NULL, w);
	TELL(post, qp, w);
}

/* Returns the position of the first of the requests, which follow each other. */
static uint32_t add_sends(struct check_qp *qp, struct ibv_send_wr *wr, check_trace trace)
{
	const uint64_t now = check_now();
	uint64_t number;
	uint32_t from;

	brief_take(&qp->lock);
	number = heard_post();
	from = qp->sq.head;
	qp->lists++;
	for (; wr; wr = wr->next) {
		struct check_wr *w = check_queue_add(&qp->sq);

		if (!w)
			break;
		fill_send(qp, w, wr);
		fill_sges(&qp->sq, w, wr->num_sge, wr->sg_list);
		w->trace = trace;
		w->list = qp->lists;
		ops_post(qp, w, now, number);
	}
	qp->sq.posted = true;
	brief_give(&qp->lock);
	return from;
}

void ops_refuse(struct check_qp *qp, struct check_queue *q, struct check_wr *w, int rc,
		bool first)
{
	if (first && qp)
		TELL(refused, qp, w, rc);
	check_queue_drop(q, w);
}

/* Of requests that follow each other from position `at` on, the NIC refused the first
 * with rc. There was no room for all of them if the queue ends earlier. */
static void refuse_rest(struct check_qp *qp, struct check_queue *q, uint32_t at,
			unsigned n, int rc)
{
	for (unsigned i = 0; i < n && (int32_t)(q->head - at) > 0; i++, at++) {
		struct check_wr *w = check_wr_at(q, at);

		if (!w->gone)
			ops_refuse(qp, q, w, rc, i == 0);
	}
}

static void refuse_sends(struct check_qp *qp, uint32_t at, const struct ibv_send_wr *wr,
			 const struct ibv_send_wr *bad, int rc)
{
	unsigned n = 0;

	for (; wr && wr != bad; wr = wr->next)
		at++;
	for (; wr; wr = wr->next)
		n++;
	brief_take(&qp->lock);
	refuse_rest(qp, &qp->sq, at, n, rc);
	brief_give(&qp->lock);
}

static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct check_qp *qp = object_qp(ibv);
	uint32_t from;
	int rc;

	if (!qp || !ops_begin()) {
		if (qp)
			qp->sq.unsure = true;
		return real.post_send(ibv, wr, bad);
	}
	if (ops_gone(&qp->o, LIVE_QP)) {
		*bad = wr;
		return errno = EINVAL;
	}
	from = add_sends(qp, wr, OPS_CALLER);
	ops_end();
	rc = real.post_send(ibv, wr, bad);
	ops_enter();
	if (rc)
		refuse_sends(qp, from, wr, *bad, rc);
	ops_end();
	return rc;
}

/* --- receives --------------------------------------------------------------- */

/* Where receives are posted: a QP's own queue (srq: NULL), or an SRQ's (qp: NULL). */
struct recvs {
	struct check_qp *qp;
	struct check_srq *srq;
	struct check_queue *q;
	struct brief_lock *lock;
};

/* Returns the position of the first of the receives, which follow each other. */
static uint32_t add_recvs(const struct recvs *r, const struct ibv_recv_wr *wr,
			  check_trace trace)
{
	const uint64_t now = check_now();
	uint32_t from;

	brief_take(r->lock);
	from = r->q->head;
	for (; wr; wr = wr->next) {
		struct check_wr *w = check_queue_add(r->q);

		if (!w)
			break;
		w->wr_id = wr->wr_id;
		w->opcode = CHECK_RECV;
		w->flags = IBV_SEND_SIGNALED;
		fill_sges(r->q, w, wr->num_sge, wr->sg_list);
		w->at = now;
		w->trace = trace;
		if (__builtin_expect(!is_usual(r->qp, r->q, w), 0))
			TELL(unusual, r->qp, r->srq, w);
		TELL(recv, r->qp, r->srq, w);
	}
	r->q->posted = true;
	brief_give(r->lock);
	return from;
}

static void refuse_recvs(const struct recvs *r, uint32_t at, const struct ibv_recv_wr *wr,
			 const struct ibv_recv_wr *bad, int rc)
{
	unsigned n = 0;

	for (; wr && wr != bad; wr = wr->next)
		at++;
	for (; wr; wr = wr->next)
		n++;
	brief_take(r->lock);
	refuse_rest(r->qp, r->q, at, n, rc);
	brief_give(r->lock);
}

static int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct check_qp *qp = object_qp(ibv);
	struct recvs r;
	uint32_t from;
	int rc;

	if (!qp || !ops_begin()) {
		if (qp)
			qp->rq.unsure = true;
		return real.post_recv(ibv, wr, bad);
	}
	if (ops_gone(&qp->o, LIVE_QP)) {
		*bad = wr;
		return errno = EINVAL;
	}
	r = (struct recvs){ .qp = qp, .q = &qp->rq, .lock = &qp->lock };
	from = add_recvs(&r, wr, OPS_CALLER);
	ops_end();
	rc = real.post_recv(ibv, wr, bad);
	ops_enter();
	if (rc)
		refuse_recvs(&r, from, wr, *bad, rc);
	ops_end();
	return rc;
}

static int post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad)
{
	struct check_srq *srq = object_srq(ibv);
	struct recvs r;
	uint32_t from;
	int rc;

	if (!srq || !ops_begin()) {
		if (srq)
			srq->rq.unsure = true;
		return real.post_srq_recv(ibv, wr, bad);
	}
	if (ops_gone(&srq->o, LIVE_SRQ)) {
		*bad = wr;
		return errno = EINVAL;
	}
	r = (struct recvs){ .srq = srq, .q = &srq->rq, .lock = &srq->lock };
	from = add_recvs(&r, wr, OPS_CALLER);
	ops_end();
	rc = real.post_srq_recv(ibv, wr, bad);
	ops_enter();
	if (rc)
		refuse_recvs(&r, from, wr, *bad, rc);
	ops_end();
	return rc;
}

/* --- completions ------------------------------------------------------------ */

/* The unsignalled requests before w are complete, too. */
static void reap_before(struct check_qp *qp, const struct check_wr *last)
{
	struct check_wr *w;

	check_for_each(w, &qp->sq)
	{
		if (w == last)
			return;
		if (w->flags & IBV_SEND_SIGNALED || w->building)
			continue;
		TELL(reaped, qp, w);
		check_queue_drop(&qp->sq, w);
	}
}

static bool fits(const struct check_wr *w, const struct ibv_wc *wc)
{
	const struct wr_op *op = wr_op(w->opcode);

	return w->wr_id == wc->wr_id && (!op || op->wc == wc->opcode);
}

/* An unsignalled request completes by an error, too: the one that fails is not behind the
 * oldest signalled one. If it may be one of several, the queue is unsure. */
static struct check_wr *find_failed(struct check_queue *q, const struct ibv_wc *wc)
{
	struct check_wr *w, *found = NULL;

	check_for_each(w, q)
	{
		if (w->building)
			continue;
		if (fits(w, wc) && found)
			check_queue_doubt(q);
		else if (fits(w, wc))
			found = w;
		if (w->flags & IBV_SEND_SIGNALED || (found && q->failed))
			break;
	}
	q->failed = true;
	return found ? found : check_queue_find(q, wc->wr_id, false);
}

static void complete_send(struct check_qp *qp, struct ibv_wc *wc)
{
	struct check_wr *w;

	brief_take(&qp->lock);
	if (wc->status != IBV_WC_SUCCESS)
		qp->failed = true;
	if (wc->status != IBV_WC_SUCCESS)
		w = find_failed(&qp->sq, wc);
	else
		w = check_queue_find(&qp->sq, wc->wr_id, true);
	if (w)
		reap_before(qp, w);
	else
		check_queue_doubt(&qp->sq);
	TELL(complete, qp, w, wc);
	if (wc->status != IBV_WC_SUCCESS)
		TELL(fails, qp, w, wc);
	if (w)
		check_queue_drop(&qp->sq, w);
	brief_give(&qp->lock);
}

static void complete_recv(struct check_qp *qp, struct ibv_wc *wc)
{
	struct brief_lock *lock = qp->srq ? &qp->srq->lock : &qp->lock;
	struct check_queue *q = qp->srq ? &qp->srq->rq : &qp->rq;
	struct check_wr *w;

	brief_take(lock);
	if (wc->status != IBV_WC_SUCCESS)
		qp->failed = true;
	qp->srq_reaped++;
	w = check_queue_find(q, wc->wr_id, false);
	if (!w)
		check_queue_doubt(q);
	TELL(complete, qp, w, wc);
	if (wc->status != IBV_WC_SUCCESS)
		TELL(fails, qp, w, wc);
	if (w)
		check_queue_drop(q, w);
	brief_give(lock);
}

void ops_complete(struct ibv_wc *wc)
{
	struct check_qp *qp = check_qp_of_number(wc->qp_num);

	if (!qp)
		return;
	if (wc->opcode & IBV_WC_RECV)
		complete_recv(qp, wc);
	else
		complete_send(qp, wc);
}

void ops_unseen(void)
{
	if (check_is_on(CHECK_BUFFER_TOUCHED))
		ward_stop();
}

static int poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct check_cq *cq = object_cq(ibv);
	int got;

	if (!cq || !ops_begin()) {
		got = real.poll_cq(ibv, n, wc);
		if (got > 0)
			ops_unseen();
		return got;
	}
	if (ops_gone(&cq->o, LIVE_CQ))
		return -EINVAL;
	ops_polls(cq);
	ops_end();
	got = real.poll_cq(ibv, n, wc);
	ops_enter();
	for (int i = 0; i < got; i++)
		ops_complete(&wc[i]);
	if (got <= 0)
		TELL(empty, cq);
	ops_end();
	return got;
}

static bool event_waits(const struct ibv_comp_channel *ch)
{
	struct pollfd p = { .fd = ch ? ch->fd : -1, .events = POLLIN };
	const int was = cancel_hold();
	const bool waits = poll(&p, 1, 0) > 0;

	cancel_let(was);
	return waits;
}

static int req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct check_cq *cq = object_cq(ibv);

	if (!cq || !ops_begin())
		return real.req_notify_cq(ibv, solicited_only);
	if (ops_gone(&cq->o, LIVE_CQ))
		return errno = EINVAL;
	cq->armed = OPS_CALLER;
	cq->armed_full = true; /* first: a poll from here on clears it */
	if (cq_empty(cq_of(ibv)) || event_waits(ibv->channel))
		cq->armed_full = false;
	cq->armed_head = cq_of(ibv)->head;
	TELL(armed, cq);
	ops_end();
	return real.req_notify_cq(ibv, solicited_only);
}

void ops_of_context(struct verbs_context *v)
{
	struct ibv_context_ops *ops = &v->context.ops;

	lock_take(&real_lock);
	if (!real.post_send)
		real = *ops;
	lock_give(&real_lock);
	ops->post_send = post_send;
	ops->post_recv = post_recv;
	ops->post_srq_recv = post_srq_recv;
	ops->poll_cq = poll_cq;
	ops->req_notify_cq = req_notify_cq;
}
