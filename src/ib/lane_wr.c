/* SPDX-License-Identifier: BSD-2-Clause */
/* lane_wr.c - work requests that need no packet: WRITEs, READs and atomics executed
 * directly in the memory of the process at the other end of a lane (direct/direct.h).
 *
 * All earlier packets of the QP must have been executed first, so that none is overtaken.
 * A work request that is executed directly takes no PSN. */
#include "direct/post.h"
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "ib/on_lane.h"
#include "sys/clock.h"
#include "verbs/device.h"
#include "verbs/transport.h"

enum {
	SMALL = 4096,	  /* up to here: by packet, if earlier packets are outstanding */
	LARGE = 64 << 10, /* above this, waiting for the earlier packets pays */
};

static struct by by_of(const struct ib_qp *q)
{
	return (struct by){ q->qp->lane.via->reach, q->qp, q->from.out };
}

static struct range range_of(const struct swqe *w)
{
	return (struct range){ w->remote_addr, w->rkey, w->length };
}

/* The peer has executed all outstanding packets: completes them, as an ACK would.
 * Returns false if the QP has failed, or more was posted meanwhile. */
static bool executed(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	req_advance(q, q->req.at.psn, now);
	return q->qp->state != IBV_QPS_ERR && q->req.at.cur == q->qp->sq.tail;
}

static bool answers_are_out(const struct ib_req *r)
{
	return r->s.answered != r->at.reads;
}

/* Has the peer executed all outstanding packets?  READs and atomics are executed once
 * they are answered. */
static bool all_executed(struct planning *p) REQUIRES(p->q->qp->lock)
{
	struct ib_qp *q = p->q;
	const struct by by = by_of(q);
	bool yes;
	uint32_t fresh = p->at.fresh; /* the one at the cursor has begun */

	qp_is_held(q->qp);
	yes = !answers_are_out(&q->req) && reach_executed(&by, q->req.at.psn) &&
	      executed(q, p->now);

	p->at = q->req.at;
	p->at.fresh = fresh;
	return yes;
}

/* A WRITE whose immediate finds no receive must not have written anything if it is one
 * packet on a wire: so a short one goes as a packet. */
static bool is_one_sided(const struct qp *qp, const struct swqe *w)
{
	return w->opcode == IBV_WR_RDMA_WRITE || w->opcode == IBV_WR_RDMA_READ ||
	       (w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM &&
		w->length > mtu_bytes(qp->attr.path_mtu));
}

/* --- by the holder of the turn -------------------------------------------- */

static bool may_copy(const struct ib_qp *q, const struct swqe *w)
{
	const struct by by = by_of(q);
	const struct range there = range_of(w);

	return reach_may(&by, &there, w->opcode == IBV_WR_RDMA_READ);
}

void lane_used(struct lane *l, uint32_t key)
{
	if (reach_used(l->reach, key))
		l->ops->borrow(l, key);
}

enum copied {
	COPIED_NONE, /* it must go by packets */
	COPIED_ALL,
	COPIED_SOME, /* the QP's share of the turn is used up */
};

/* Copies the next bytes of w, which is the oldest work request. */
static enum copied copy(struct planning *p, const struct swqe *w)
{
	struct ib_qp *q = p->q;
	struct lane *l = q->qp->lane.via;
	const struct by by = by_of(q);
	const struct range there = range_of(w);
	struct ib_req *r = &q->req;
	uint32_t len = w->length - r->direct;

	if (len == 0)
		return COPIED_NONE;
	if (len > p->left * REQ_UNIT)
		len = p->left * REQ_UNIT;
	if (!(w->opcode == IBV_WR_RDMA_READ
		      ? reach_read(&by, &there, &p->memory.span, r->direct, len)
		      : reach_write(&by, &there, &p->memory.span, r->direct, len))) {
		r->direct = 0;
		return COPIED_NONE;
	}
	lane_used(l, w->rkey);
	r->direct += len;
	l->direct++;
	l->direct_bytes += len;
	q->qp->core->round.spent += len / REQ_UNIT + 1;
	req_spend(p, len);
	if (r->direct < w->length)
		return COPIED_SOME;
	r->direct = 0;
	return COPIED_ALL;
}

static enum step done(struct planning *p, struct swqe *w) REQUIRES(p->q->qp->lock)
{
	struct ib_qp *q = p->q;

	/* the immediate goes as a packet */
	if (w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		q->req.by_packet = true;
		w->npkts = 1;
		w->done = w->length;
		return STEP_GO;
	}
	p->at.cur++;
	q->req.at = p->at;
	q->req.by_packet = false;
	qp_is_held(q->qp);
	sq_complete(q->qp, IBV_WC_SUCCESS, VERR_NONE, p->now);
	return STEP_NEXT;
}

enum step lane_directly(struct planning *p, struct swqe *w)
{
	struct ib_qp *q = p->q;
	struct ib_req *r = &q->req;
	struct lane *l = q->qp->lane.via;

	if (wqe_is_atomic(w) && l->reach->vm)
		lane_used(l, w->rkey);
	/* UC has no word that tells what was executed. */
	if (!q->qp->reliable || r->by_packet || p->at.psn != w->psn || w->done ||
	    p->at.psn != p->at.max_psn || !is_one_sided(q->qp, w))
		return STEP_GO;
	if (!l->reach->vm) {
		r->direct = 0; /* packets will carry all of it */
		if (l->reach->shut_out)
			l->ops->unlock(l, p->now);
		return STEP_GO;
	}
	if (r->s.una != p->at.psn || p->at.cur != q->qp->sq.tail) {
		if (w->length <= SMALL || !may_copy(q, w))
			return STEP_GO;
		if (!all_executed(p))
			return w->length > LARGE || q->qp->state == IBV_QPS_ERR
				       ? STEP_WAIT
				       : STEP_GO; /* ERR: a completion overran its CQ */
	}
	if (wqe_resolve(q->qp, p->at.cur, &p->memory) != 0)
		return req_refuse(p, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_KEY);
	switch (copy(p, w)) {
	case COPIED_ALL:
		return done(p, w);
	case COPIED_SOME:
		r->at = p->at; /* it has begun */
		return STEP_NEXT;
	case COPIED_NONE:
		break;
	}
	r->by_packet = true;
	return STEP_GO;
}

/* --- by the thread that posts ---------------------------------------------- */

static uint32_t key_of(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
			       wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP
		       ? wr->wr.atomic.rkey
		       : wr->wr.rdma.rkey;
}

/* Have all outstanding packets been executed, by the word in the peer's export table? */
static bool out_is_executed(struct ib_qp *q, uint32_t key) REQUIRES(q->qp->lock)
{
	const struct ib_req *r = &q->req;
	const struct by by = by_of(q);

	return !answers_are_out(r) && reach_executed_now(&by, key, r->at.psn) &&
	       executed(q, clock_ns());
}

/* May a work request be executed now?  It must not overtake an earlier request, nor an
 * answer that is to go out at once. */
static inline bool is_next(const struct qp *qp, struct ib_qp *q,
			   const struct ibv_send_wr *wr) REQUIRES(q->qp->lock)
{
	const struct ib_req *r = &q->req;
	const struct ib_rsp *s = &q->rsp;
	uint32_t index = qp->sq.head;

	if (r->at.cur != index || r->at.fresh != index || r->s.failed || r->s.rnr_until ||
	    s->nak_due || s->resources || (s->ack.due && !s->ack.wait_until))
		return false;
	if (r->s.una == r->at.psn)
		return qp->sq.tail == index;
	/* Completing work may let the QP post requests of its own, so the head is read
	 * again. */
	return out_is_executed(q, key_of(wr)) && qp->sq.head == index;
}

struct ibv_send_wr *lane_at_once(struct qp *qp, struct ibv_send_wr *wr)
{
	struct ib_qp *q = ib_qp(qp);
	const struct poster poster = { by_of(q), &q->allowed, &q->req.at,
				       &q->req.direct };

	qp_is_held(q->qp);
	qp_is_held(qp);
	qp_is_held(poster.by.qp);
	if (!is_direct(wr->opcode) || !is_next(qp, q, wr))
		return wr;
	return reach_post(&poster, wr);
}
