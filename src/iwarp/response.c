/* SPDX-License-Identifier: BSD-2-Clause */
/* response.c - sends READ responses and results of atomics, in the order in which the
 * peer requested them (RFC 5040, 4.5; RFC 7306, 5.2.2). */
#include "iwarp/iw_qp.h"

static enum step atomic_answer(const struct iw_resource *o, struct iw_cursor *c,
			       struct seg *s)
{
	s->ddp.last = true;
	s->ddp.ulp = rdmap_control(RDMAP_ATOMIC_RESPONSE);
	s->ddp.qn = 3;
	s->ddp.msn = c->msn[3]++;
	rdmap_atomic_response_build(s->body, &o->a);
	s->body_len = RDMAP_ATOMIC_RESPONSE_LEN;
	c->resource++;
	c->answered = true;
	return STEP_SEG;
}

/* Finds the payload's memory.  The region may have gone since the READ was requested:
 * then a Terminate is sent. */
static bool resolve_memory(struct iw_qp *q, const struct iw_resource *o, uint32_t off,
			   uint32_t len, struct work *work, uint64_t now)
	REQUIRES(q->qp->lock)
{
	struct qp *qp = q->qp;
	uint8_t read[RDMAP_READ_LEN];
	struct ddp d;
	enum mr_why why;
	uint8_t *host;

	work->answer.ours = false;
	work->answer.n = 0;
	if (len == 0)
		return true;
	why = mr_check(qp->core, o->r.src_stag, qp->pd, qp->qpn, o->r.src_to + off, len,
		       IBV_ACCESS_REMOTE_READ, &host);
	if (why == MR_OK) {
		work->answer.n = 1;
		work->answer.v[0] = (struct piece){ host, len };
		return true;
	}
	/* Planned segments are sent first: then this READ is the oldest. */
	if (q->iw->plans)
		return false;
	rdmap_read_build(read, &o->r);
	ddp_parse(&d, o->ddp, sizeof(o->ddp));
	iw_terminate(q, iw_term_of(why, false), &d, sizeof(o->ddp) + RDMAP_READ_LEN, read,
		     IBV_EVENT_QP_ACCESS_ERR, now);
	return false;
}

enum step iw_rsp_next(struct iw_qp *q, struct iw_cursor *c, struct seg *s,
		      struct work *work, uint64_t now)
{
	const struct iw_resource *o = &q->resources.v[c->resource % DEPTH];
	size_t most = q->mulpdu - DDP_TAGGED_LEN;
	uint32_t left, len;

	if (c->resource == q->resources.tail)
		return STEP_WAIT;
	if (o->atomic)
		return atomic_answer(o, c, s);
	left = o->r.len - c->resource_off;
	len = left < most ? left : (uint32_t)most;
	if (!resolve_memory(q, o, c->resource_off, len, work, now))
		return STEP_STOP;
	s->len = len;
	s->ddp.tagged = true;
	s->ddp.ulp = rdmap_control(RDMAP_READ_RESPONSE);
	s->ddp.stag = o->r.sink_stag;
	s->ddp.to = o->r.sink_to + c->resource_off;
	s->ddp.last = s->len == left;
	s->span = &work->answer;
	c->resource_off += s->len;
	if (s->ddp.last) {
		c->resource++;
		c->resource_off = 0;
		c->answered = true;
	}
	return STEP_SEG;
}
