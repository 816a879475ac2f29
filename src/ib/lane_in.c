/* SPDX-License-Identifier: BSD-2-Clause */
/* lane_in.c - a shortcut for the most common packet on a lane: rx.c, responder.c, step.c
 * and verbs/target.c in one function, for a message with no special case left.  State
 * changes only at the end: a message with a special case is left untouched and goes the
 * general way. */
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "ib/on_lane.h"
#include "verbs/event.h"
#include "verbs/target.h"

/* In RTR the first message raises IBV_EVENT_COMM_EST, so it takes the general way. */
static bool takes(const struct ib_qp *q)
{
	enum ibv_qp_state s = q->qp->state;

	return s == IBV_QPS_RTS || (s == IBV_QPS_RTR && q->rsp.comm_est);
}

/* Is s the packet that the QP expects next, with no NAK and no unfinished message ahead
 * of it? */
static bool is_next(const struct ib_qp *q, const struct lane_short *s, uint32_t len)
{
	const struct ib_rsp *r = &q->rsp;
	const struct qp *qp = q->qp;

	return takes(q) && s->psn == r->epsn && !r->out_of_order && !r->nak_due &&
	       !r->target.have_recv && q->service == IB_RC && !qp->srq && len <= q->mtu &&
	       (!r->prev || ib_ends(r->prev));
}

static bool take(struct ib_qp *q, const struct lane_short *s, const uint8_t *payload,
		 uint32_t len, uint64_t now) REQUIRES(q->qp->lock)
{
	struct ib_rsp *r = &q->rsp;
	struct qp *qp = q->qp;

	lane_hear_any(q, now); /* this may overrun a CQ and fail the QP */
	qp_is_held(qp);
	if (!is_next(q, s, len) || !target_fill_first(qp, &q->into, payload, len))
		return false;
	r->epsn = psn_add(r->epsn, 1);
	r->msn = psn_add(r->msn, 1);
	r->prev = ib_op(s->opcode);
	target_complete_first(qp, len, s->se, now);
	if (qp->state != IBV_QPS_ERR) /* ERR: its CQ was overrun */
		lane_tell(q, s->ackreq, false);
	return true;
}

bool ib_lane_message(struct core *core, const struct lane *l,
		     const struct lane_from *from, const struct lane_short *s,
		     const uint8_t *payload, uint32_t len, uint64_t now)
{
	struct ib_qp *q;
	struct qp *qp;
	bool done;

	turn_is_held(core);
	qp = qp_find(core, s->dst);
	if (!qp || qp->transport != &ib_transport || core->leaving)
		return false;
	q = ib_qp(qp);
	lock_take(&qp->lock);
	qp_is_held(q->qp);
	done = qp->lane.via == l && from->qpn == qp->attr.dest_qp_num &&
	       from->out == q->route_in && take(q, s, payload, len, now);
	ib_settle(q);
	lock_give(&qp->lock);
	return done;
}
