/* SPDX-License-Identifier: BSD-2-Clause */
/* lane_ref.c - SENDs by reference: a packet says where in the sender's memory its payload
 * lies, and the responder copies it from there into the receive: one copy in place of
 * two (docs/dev/lane.md). */
#include "direct/direct.h"
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "ib/on_lane.h"
#include "verbs/mkey.h"
#include "verbs/sgl.h"

enum { BY_VALUE_NS = 1000000000 }; /* nothing goes by reference after a failure */

/* --- the sender ------------------------------------------------------------ */

/* Finds where the packet's payload lies.  Returns false if no single SGE has it all. */
static bool find_sge(const struct planning *p, const struct swqe *w, const struct emit *e,
		     struct ibv_sge *out)
{
	struct sge_parts parts = { sq_sges(&p->q->qp->sq, p->at.cur), w->num_sge, e->off,
				   e->len };

	return sge_next(&parts, out) && out->length == e->len;
}

static bool may_go(const struct ib_qp *q, const struct swqe *w)
{
	return w->length >= FETCH_LEAST && !(w->flags & IBV_SEND_INLINE) &&
	       q->qp->lane.via->reach->told;
}

bool lane_wants_ref(const struct ib_qp *q, const struct swqe *w)
{
	return may_go(q, w) && !q->req.by_value_until;
}

/* A packet that is sent again carries its payload: perhaps it could not be fetched. */
void lane_by_ref(const struct planning *p, const struct swqe *w, struct emit *e)
{
	const struct ib_qp *q = p->q;
	struct ibv_sge from;

	if (e->len < FETCH_LEAST || !may_go(q, w) || q->service != IB_RC ||
	    ib_op(e->f.opcode)->kind != IB_SEND || e->copy ||
	    p->now < q->req.by_value_until || !find_sge(p, w, e, &from) ||
	    !mkey_is_exported(&q->qp->core->mkeys, from.lkey))
		return;
	e->f.by_ref = true;
	e->f.va = from.addr;
	e->f.rkey = from.lkey;
	e->f.dma_len = e->len;
}

bool lane_by_value(struct ib_qp *q, uint32_t psn, uint64_t now)
{
	struct ib_req *r = &q->req;

	if (now < r->by_value_until)
		return false;
	r->by_value_until = now + BY_VALUE_NS;
	if (!req_advance(q, psn, now) || q->qp->state == IBV_QPS_ERR)
		return true;
	req_rewind(q, r->s.una);
	r->at.burst = NO_BURST;
	return true;
}

/* --- the responder --------------------------------------------------------- */

enum refusal lane_fetch(struct ib_qp *q, const struct ib_pkt *pkt)
{
	const struct by by = { q->qp->lane.via->reach, q->qp, q->from.out };
	const struct range from = { pkt->f.va, pkt->f.rkey, (uint32_t)pkt->payload_len };
	struct target *t = &q->rsp.target;
	enum refusal why = ACCEPTED;
	struct span to;

	/* Hooks look at the payload first: a tag is in it. */
	if (q->qp->hooks || !reach_is_worth_fetching(by.r, from.key))
		return REFUSED_FETCH;
	if (ib_begins(pkt->op))
		why = target_take_recv(q->qp, t);
	if (!why)
		why = target_recv_span(q->qp, t, from.len, &to);
	if (why)
		return why;
	if (!reach_fetch(&by, &from, &to))
		return REFUSED_FETCH;
	lane_used(q->qp->lane.via, from.key);
	q->qp->lane.via->direct++;
	q->qp->lane.via->direct_bytes += from.len;
	t->filled += from.len;
	return ACCEPTED;
}
