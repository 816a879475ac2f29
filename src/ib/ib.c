/* SPDX-License-Identifier: BSD-2-Clause */
/* ib.c - the IB transport as verbs and driver see it: changes of state, and turns. */
#include <stdlib.h>
#include <string.h>

#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "sys/log.h"
#include "verbs/device.h"
#include "verbs/due.h"
#include "verbs/transport.h"

/* --- the NIC ------------------------------------------------------------- */

struct room_key ib_key;

int ib_open(struct core *core, uint64_t seed)
{
	struct ib *ib = calloc(1, sizeof(*ib));

	(void)seed;
	if (!ib)
		return -ENOMEM;
	ib->core = core;
	list_init(&ib->hosts);
	room_put(core, &ib_key, ib);
	return 0;
}

void ib_close(struct core *core)
{
	free(ib_of(core));
	room_put(core, &ib_key, NULL);
}

/* --- a QP ---------------------------------------------------------------- */

static enum ib_service service_of(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC   ? IB_RC
	       : type == IBV_QPT_UC ? IB_UC
	       : type == IBV_QPT_UD ? IB_UD
				    : IB_XRC;
}

static int open_qp(struct qp *qp)
{
	struct ib_qp *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	q->qp = qp;
	q->service = service_of(qp->type);
	q->hooks = q->service == IB_XRC ? &xrc_hooks : NULL;
	q->answers = qp_has_receives(qp) || !qp->send_cq;
	q->ib = ib_of(qp->core);
	q->counter = qp->counter = ib_counter_of(q->ib, qp->dev->ibv.name);
	list_init(&q->cc_node);
	req_reset(q, 0);
	qp->tp.state = q;
	return 0;
}

static void let_go(struct ib_qp *q)
{
	cc_leave(q);
	if (q->host)
		cc_put(q->host);
	q->host = NULL;
}

static void close_qp(struct qp *qp)
{
	let_go(ib_qp(qp));
	if (ib_qp(qp)->hooks)
		ib_qp(qp)->hooks->close(ib_qp(qp));
	rnr_end(ib_qp(qp));
	free(ib_qp(qp)->kept);
	free(qp->tp.state);
	qp->tp.state = NULL;
}

void rsp_reset(struct ib_qp *q, uint32_t epsn)
{
	struct ib_rsp *s = &q->rsp;

	rnr_end(q);
	memset(s, 0, sizeof(*s));
	s->epsn = epsn & PSN_MASK;
	ack_reset(q);
	if (q->hooks)
		q->hooks->stop(q);
}

void ib_fail(struct ib_qp *q, bool sq_only, int event, uint64_t now)
{
	req_stop(q);
	if (!sq_only) {
		q->rsp.target.have_recv = false; /* verbs flushes that receive */
		rnr_end(q);
	}
	qp_fail(q->qp, sq_only, event, now);
}

/* Finds the congestion window of the peer's host.  The host may be another one after
 * SQD. */
static int find_host(struct ib_qp *q)
{
	struct qp *qp = q->qp;
	struct cc_host *h;

	if (!qp->reliable || (q->host && cc_is_of(q->host, &qp->path)))
		return 0;
	h = cc_get(q->ib, &qp->path);
	if (!h)
		return -ENOMEM;
	req_rewind(q, q->req.s.una); /* what is outstanding went to the other host */
	let_go(q);
	q->host = h;
	return 0;
}

static int enter_rtr(struct ib_qp *q)
{
	struct qp *qp = q->qp;

	q->mtu = qp->path.mtu;
	rsp_reset(q, qp->attr.rq_psn);
	return find_host(q);
}

static int enter_rts(struct ib_qp *q, enum ibv_qp_state from)
{
	struct qp *qp = q->qp;

	if (from == IBV_QPS_RTR)
		req_reset(q, qp->attr.sq_psn);
	if (from == IBV_QPS_SQE)
		req_reset(q, q->req.at.max_psn);
	due_add(qp->core, qp);
	return find_host(q);
}

static void enter_err(struct ib_qp *q)
{
	req_stop(q);
	if (q->hooks)
		q->hooks->stop(q);
	rnr_end(q);
	q->rsp.target.have_recv = false; /* verbs flushes that receive */
	q->rsp.ack.due = q->rsp.cnp_due = false;
	if (!q->rsp.nak_due) /* otherwise the answers before the NAK go out too */
		q->rsp.resources = 0;
}

void ib_settle(struct ib_qp *q)
{
	if (q->qp->state == IBV_QPS_ERR)
		enter_err(q);
}

static int enter(struct qp *qp, enum ibv_qp_state from, uint64_t now)
{
	struct ib_qp *q = ib_qp(qp);

	(void)now;
	switch (qp->state) {
	case IBV_QPS_RESET:
		let_go(q);
		q->next_at = 0;
		req_reset(q, 0);
		rsp_reset(q, 0);
		return 0;
	case IBV_QPS_RTR:
		return enter_rtr(q);
	case IBV_QPS_RTS:
		return enter_rts(q, from);
	case IBV_QPS_SQD:
		due_add(qp->core, qp);
		return find_host(q);
	case IBV_QPS_SQE:
		req_stop(q);
		return 0;
	case IBV_QPS_ERR:
		enter_err(q);
		return 0;
	case IBV_QPS_INIT:
	case IBV_QPS_UNKNOWN:
		return 0;
	}
	return 0;
}

/* An ACK that is due goes before the program's own request: a program that receives an
 * answer may rely on its own SEND being complete.  ack_goes_last() has the exception. */
static bool output_rts(struct ib_qp *q, struct batch *b, uint64_t now)
	REQUIRES(q->qp->lock)
{
	bool answer = q->req.at.cur != q->qp->sq.head,
	     last = answer && ack_goes_last(q, b);
	bool more = rsp_is_pending(q) && rsp_output(q, b, now);

	if (!more && !last && ack_is_pending(q))
		more = ack_output(q, b, answer, false, now) != 0;
	/* A QP that cc_wake() has woken must send or decline, so req_output() is called
	 * even if it has nothing to send. */
	if (answer || q->req.called)
		more = req_output(q, b, now) || more;
	if (!more && last)
		more = ack_output(q, b, true, true, now) != 0;
	return more;
}

static bool output_of(struct ib_qp *q, struct batch *b, uint64_t now)
{
	qp_is_held(q->qp);
	switch (q->qp->state) {
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
		return output_rts(q, b, now);
	case IBV_QPS_RTR:
	case IBV_QPS_SQE:
		return rsp_output(q, b, now) || ack_output(q, b, false, false, now) != 0;
	case IBV_QPS_ERR:
		return q->rsp.nak_due && (rsp_output(q, b, now) ||
					  ack_output(q, b, false, false, now) != 0);
	case IBV_QPS_RESET:
	case IBV_QPS_INIT:
	case IBV_QPS_UNKNOWN:
		break;
	}
	return false;
}

static bool output(struct qp *qp, struct batch *b, uint64_t now)
{
	struct ib_qp *q = ib_qp(qp);
	q->ib->now = now;
	if (now < q->next_at) { /* by its static rate; ib_run() returns when */
		if (q->req.called) {
			cc_answer(q);
			cc_wake(q->host);
		}
		return false;
	}
	return output_of(q, b, now);
}

uint64_t ib_run(struct qp *qp, uint64_t now)
{
	struct ib_qp *q = ib_qp(qp);
	uint64_t next, ack, late = NEVER, later = NEVER;

	qp_is_held(q->qp);
	next = req_run(q, now);
	if (__builtin_expect(q->rsp.late.wait.until != 0, 0))
		late = rnr_run(q, now);
	if (__builtin_expect(q->hooks != NULL, 0))
		later = q->hooks->run(q, now);
	ib_settle(q);
	next = late < next ? late : next;
	next = later < next ? later : next;
	ack = ack_deadline(q, now);
	next = ack < next ? ack : next;
	return now < q->next_at && q->next_at < next ? q->next_at : next;
}

const struct transport ib_transport = {
	.name = "ib",
	.open = open_qp,
	.close = close_qp,
	.enter = enter,
	.output = output,
	.commit = ib_commit,
	.run = ib_run,
	.describe = ib_describe_qp,
	.peer = ib_describe_peer,
};
