/* SPDX-License-Identifier: BSD-2-Clause */
/* plan.c - turns what output() has planned into what was sent, as far as the link has
 * taken the batch. */
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "verbs/due.h"
#include "verbs/rate.h"

enum { LRH_BYTES = 8 };

static void request_sent(struct ib_qp *q, const struct plan *p, uint64_t now)
{
	struct ib_req *r = &q->req;

	/* The QP may have failed since the packet was planned. */
	if (q->qp->state != IBV_QPS_RTS && q->qp->state != IBV_QPS_SQD)
		return;
	r->at = p->at;
	if (!q->qp->reliable)
		return;
	if (q->host)
		cc_sent(q, p->cost);
	req_arm(q, now);
	if (!p->fresh) {
		count(q, IB_TX_RETRANSMIT);
		return;
	}
	ack_answered(q, now);
	if (p->timed && r->rtt_at == 0) {
		r->rtt_psn = p->psn;
		r->rtt_at = now;
	}
}

void plan_sent(struct ib_qp *q, const struct plan *p, uint64_t now)
{
	switch (p->kind) {
	case PLAN_REQUEST:
		request_sent(q, p, now);
		return;
	case PLAN_RESPONSE:
		rsp_sent(q, p->psn, p->sent);
		return;
	case PLAN_ACK:
	case PLAN_NAK:
		ack_sent(q, p);
		return;
	case PLAN_CNP:
		q->rsp.cnp_due = false;
		return;
	}
}

/* 9.11: the next packet waits for as long as this one takes at the static rate of its
 * path. */
static void pace(struct ib_qp *q, const struct plan *p, uint64_t now)
{
	const uint64_t kbps = (uint64_t)p->rate * 1000;

	if (p->rate)
		q->next_at = pace_from(q->next_at, now) +
			     pace_ns(p->len + LRH_BYTES + TRAILER_LEN, kbps);
}

/* The link took nothing, not even p.  What goes to a link that takes nothing for ever is
 * lost, as on a wire. */
static void refused(struct ib_qp *q, const struct plan *p, uint64_t now)
	REQUIRES(q->qp->lock)
{
	if (!req_is_stuck(q, now))
		return;
	if (q->qp->reliable)
		req_fail(q, IBV_WC_RETRY_EXC_ERR, VERR_LINK, now);
	else
		plan_sent(q, p, now);
}

uint64_t ib_commit(struct qp *qp, unsigned first, unsigned n, uint64_t now)
{
	struct ib_qp *q = ib_qp(qp);

	qp_is_held(q->qp);
	if (n)
		q->req.refused_at = q->req.stuck = 0;
	else
		refused(q, &q->ib->plan[first], now);
	for (unsigned i = first; i < first + n; i++) {
		count(q, IB_TX);
		q->counter[IB_TX_BYTES] += q->ib->plan[i].len;
		pace(q, &q->ib->plan[i], now);
		plan_sent(q, &q->ib->plan[i], now);
	}
	if (q->host)
		cc_unplan(q);
	/* The program ends: nobody wants completions, and locks may stay taken. */
	return qp->core->leaving ? NEVER : ib_run(qp, now);
}
