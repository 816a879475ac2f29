/* SPDX-License-Identifier: BSD-2-Clause */
/* lane_send.c - a shortcut for the most common packet on a lane.  lane_send() is begin(),
 * send_data() and move_on() of requester.c in one, for a message with no special case
 * left; lane_posted() is output() in one, for a QP that has nothing else to do. */
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "ib/on_lane.h"

/* Is w a SEND of one packet that need not wait for others? */
static inline bool is_plain(const struct ib_qp *q, const struct swqe *w)
{
	return w->opcode == IBV_WR_SEND && !(w->flags & IBV_SEND_FENCE) &&
	       w->length <= q->mtu && !lane_wants_ref(q, w);
}

/* Would the next packet be a new one, for which there is a PSN? */
static inline bool goes_on(const struct planning *p)
{
	return p->at.psn == p->at.max_psn && p->at.burst == NO_BURST &&
	       psn_off(p->at.psn, p->q->req.s.una) < PSN_WINDOW - 1;
}

/* Does the same as wqe_resolve(), for one SGE whose region the QP remembers. */
static int resolve_short(struct planning *p, const struct swqe *w)
{
	struct qp *qp = p->q->qp;
	const struct ibv_sge *sge = sq_sges(&qp->sq, p->at.cur);
	struct mr_found *f = &p->q->allowed.ours;
	struct wqe_memory *m = &p->memory;
	bool ours = w->flags & IBV_SEND_INLINE;
	uint8_t *host = ours ? (uint8_t *)(uintptr_t)sge->addr : NULL;

	if (w->num_sge != 1 || !w->length)
		return wqe_resolve(qp, p->at.cur, m);
	if (!ours)
		host = mr_again(qp->core, f, sge->lkey, sge->addr, sge->length, 0);
	if (!host && mr_check_inside(qp->core, f, sge->lkey, qp->pd, sge->addr,
				     sge->length, 0, &host) != MR_OK)
		return wqe_resolve(qp, p->at.cur, m);
	m->span.ours = ours;
	m->span.n = 1;
	m->span.v[0] = (struct piece){ host, w->length };
	m->resolved = true;
	m->index = p->at.cur;
	return 0;
}

/* Sends w, which is plain.  Returns as lane_send(). */
static inline enum step send_plain(struct planning *p, struct swqe *w)
	REQUIRES(p->q->qp->lock)
{
	struct ib_qp *q = p->q;
	struct qp *qp = q->qp;
	struct lane *l = qp->lane.via;
	struct lane_short s = { .psn = p->at.psn };
	int rc;

	if (!qp_may_write(qp)) {
		lane_no_room(q, false);
		return STEP_WAIT;
	}
	if (resolve_short(p, w))
		return STEP_GO;
	s.opcode = ib_opcode(IB_RC, IB_SEND, IB_ONLY, IB_NONE);
	s.dst = qp->attr.dest_qp_num;
	s.se = w->flags & IBV_SEND_SOLICITED;
	s.ackreq = lane_asks_for_ack(q, &p->at, w, true);
	rc = l->ops->send_short(l, &q->from, &s, &p->memory.span, w->length);
	if (rc == -EFAULT)
		return STEP_GO;
	if (rc) {
		lane_no_room(q, true);
		return STEP_WAIT;
	}
	w->psn = s.psn;
	w->npkts = 1;
	w->done = 0;
	p->at.psn = p->at.max_psn = psn_add(s.psn, 1);
	p->at.cur++;
	p->at.fresh++;
	q->req.at = p->at;
	q->req.written = lane_mark(l->written);
	qp->core->round.spent += w->length / REQ_UNIT + 1;
	req_arm(q, p->now);
	if (s.ackreq)
		lane_expects(q);
	req_spend(p, w->length);
	return STEP_SENT;
}

enum step lane_send(struct planning *p, struct swqe *w)
{
	const struct qp *qp = p->q->qp;

	return is_plain(p->q, w) && goes_on(p) && qp->reliable && qp->state == IBV_QPS_RTS
		       ? send_plain(p, w)
		       : STEP_GO;
}

/* Has the QP nothing to do but to send, and is nothing in its way? */
static bool only_sends(const struct qp *qp, const struct ib_qp *q)
{
	const struct ib_req *r = &q->req;

	return qp->lane.via && qp->lane.via->state == LANE_UP &&
	       qp->state == IBV_QPS_RTS && q->service == IB_RC &&
	       r->at.cur == r->at.fresh && !r->s.failed && !r->s.rnr_until &&
	       !q->next_at && list_empty(&qp->lane.via->line) && !rsp_is_pending(q) &&
	       !ack_is_pending(q);
}

bool lane_posted(struct qp *qp, uint64_t *next)
{
	struct ib_qp *q = ib_qp(qp);
	struct planning p;

	qp_is_held(q->qp);
	if (!qp->core->round.clock || !only_sends(qp, q))
		return false;
	q->req.full = false;
	p.q = q;
	qp_is_held(p.q->qp);
	p.b = NULL;
	p.at = q->req.at;
	p.now = 0; /* went_out() asks the clock where the time matters */
	p.left = REQ_SHARE;
	p.memory.resolved = false;
	while (p.at.cur != qp->sq.head && p.left > 0) {
		struct swqe *w = sq_at(&qp->sq, p.at.cur);

		if (!is_plain(q, w) || !goes_on(&p) || send_plain(&p, w) != STEP_SENT)
			return false;
		p.left--;
	}
	*next = q->req.timeout_at < q->req.probe_at ? q->req.timeout_at : q->req.probe_at;
	return p.at.cur == qp->sq.head;
}
