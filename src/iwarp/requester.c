/* SPDX-License-Identifier: BSD-2-Clause */
/* requester.c - turns work requests into segments (RFC 5040, 5; RFC 7306, 5, 6).
 *
 * One cursor walks over the send queue.  A plan moves a copy of it, and the plan may be
 * dropped: so the functions here change of a work request only fields that are written
 * anew each time. */
#include <string.h>

#include "iwarp/iw_qp.h"

/* The opcode of each kind of work request. */
static const struct wr {
	bool known, wire;
	uint8_t opcode; /* enum rdmap_opcode */
} wrs[] = {
#define OP(name, types, traits, wc, claim, ib_kind, ib_tail, rdmap)                      \
	[IBV_WR_##name] = { (types)&IW, !((traits)&WR_LOCAL), rdmap },
#include "verbs/wr_op.def"
};

static const struct wr *wr_of(const struct swqe *w)
{
	return w->opcode < sizeof(wrs) / sizeof(wrs[0]) && wrs[w->opcode].known
		       ? &wrs[w->opcode]
		       : NULL;
}

void iw_req_reset(struct iw_qp *q)
{
	memset(&q->c, 0, sizeof(q->c));
	q->c.cur = q->qp->sq.tail;
	for (int i = 0; i < RDMAP_QUEUES; i++)
		q->c.msn[i] = 1;
	q->failed = false;
	q->reads.head = q->resources.tail = 0;
	q->tail_at = q->tail_end = 0;
	q->careful = false;
	q->budget = BUDGET_MIN * 4;
	q->answers = (struct answers){ 0 };
	q->held_until = 0;
}

/* --- how work requests end ----------------------------------------------- */

static bool alive(const struct iw_qp *q)
{
	return q->life == LIFE_OPEN && q->qp->state != IBV_QPS_ERR;
}

void iw_req_flush(struct iw_qp *q, uint32_t until, uint64_t now)
{
	while (alive(q) && q->qp->sq.tail != until)
		sq_complete(q->qp, IBV_WC_WR_FLUSH_ERR, VERR_FLUSHED, now);
}

/* Is the oldest work request also the last, and does its completion wait? */
static bool is_held(const struct iw_qp *q, uint64_t now)
{
	const struct sq *sq = &q->qp->sq;

	return now < q->held_until && sq->head - sq->tail == 1 && !q->failed;
}

void iw_req_complete(struct iw_qp *q, uint64_t now)
{
	/* A work request is sent when the stream took its last byte. */
	uint32_t gone = q->tail_at < q->tail_end ? q->tail_cur : q->c.cur;
	struct sq *sq = &q->qp->sq;

	while (alive(q) && (int32_t)(gone - sq->tail) > 0 &&
	       sq_at(sq, sq->tail)->state != WAITS && !is_held(q, now))
		sq_complete(q->qp, IBV_WC_SUCCESS, VERR_NONE, now);
	/* A message that cannot go on blocks all others, perhaps the responses that the
	 * peer waits for: so work requests before it are not waited for but flushed. */
	if (!alive(q) || !q->failed || (sq->tail != q->c.cur && !q->c.begun))
		return;
	q->failed = false;
	q->held_until = 0;
	iw_req_flush(q, q->c.cur, now);
	if (alive(q))
		sq_complete(q->qp, q->fail_status, q->fail_verr, now);
	/* A part of the message may have been sent. */
	iw_terminate(q, TERM_RDMAP_LOCAL, NULL, 0, NULL, -1, now);
}

void iw_req_gone(struct iw_qp *q, uint64_t now)
{
	const struct swqe *last = sq_at(&q->qp->sq, q->c.cur - 1);

	q->held_until = 0;
	/* The peer's NIC answers a READ: that tells nothing about the program. */
	if (q->c.cur != q->qp->sq.head || q->tail_at < q->tail_end || wqe_is_read(last))
		return;
	if (!answers_ask(&q->answers, now))
		return;
	if (last->flags & IBV_SEND_SIGNALED)
		q->held_until = now + ANSWER_WAIT_NS;
	else
		q->answers.awaited = false;
}

void iw_req_release(struct iw_qp *q, uint64_t now)
{
	if (!q->held_until)
		return;
	q->held_until = 0;
	iw_req_complete(q, now);
}

void iw_req_error(struct iw_qp *q, enum ibv_wc_status status, enum verr verr,
		  uint64_t now)
{
	q->failed = true;
	q->fail_status = status;
	q->fail_verr = verr;
	iw_req_complete(q, now);
}

static enum step refuse(struct iw_qp *q, enum ibv_wc_status status, enum verr verr,
			uint64_t now) REQUIRES(q->qp->lock)
{
	/* Planned segments are sent first: then the work request is at q's own cursor. */
	if (q->iw->plans)
		return STEP_WAIT;
	iw_req_error(q, status, verr, now);
	return STEP_WAIT;
}

/* --- local work ------------------------------------------------------------ */

/* Takes effect at once, so it must not be part of a plan. */
static enum step local_work(struct iw_qp *q, struct iw_cursor *c, uint64_t now)
	REQUIRES(q->qp->lock)
{
	enum ibv_wc_status st;
	enum verr verr;

	if (q->iw->plans)
		return STEP_WAIT;
	switch (wqe_local_work(q->qp, c->cur, &st, &verr, now)) {
	case WQE_WAITS:
		return STEP_WAIT;
	case WQE_FAILED:
		return refuse(q, st, verr, now);
	case WQE_DONE:
		break;
	}
	c->cur++;
	q->c.cur = c->cur;
	return q->qp->state == IBV_QPS_ERR ? STEP_WAIT : STEP_AGAIN;
}

/* --- segments ------------------------------------------------------------ */

static void next_request(struct iw_cursor *c)
{
	c->cur++;
	c->off = 0;
	c->begun = c->imm = c->answered = false;
}

static uint32_t least(uint32_t a, size_t b)
{
	return a < b ? a : (uint32_t)b;
}

static enum step write_segment(struct iw_qp *q, struct iw_cursor *c, struct seg *s,
			       const struct swqe *w)
{
	s->ddp.tagged = true;
	s->ddp.ulp = rdmap_control(RDMAP_WRITE);
	s->ddp.stag = w->rkey;
	s->ddp.to = w->remote_addr + c->off;
	s->off = c->off;
	s->len = least(w->length - c->off, q->mulpdu - DDP_TAGGED_LEN);
	s->ddp.last = c->off + s->len == w->length;
	c->off += s->len;
	c->begun = true;
	if (!s->ddp.last)
		return STEP_SEG;
	if (w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		c->imm = true;
	else
		next_request(c);
	return STEP_SEG;
}

/* RFC 7306, 6: eight bytes, of which verbs' immediate is the first four. */
static enum step imm_segment(struct iw_cursor *c, struct seg *s, const struct swqe *w)
{
	bool se = w->flags & IBV_SEND_SOLICITED;

	s->ddp.last = true;
	s->ddp.ulp = rdmap_control(se ? RDMAP_IMMEDIATE_SE : RDMAP_IMMEDIATE);
	s->ddp.msn = c->msn[0]++;
	memset(s->body, 0, RDMAP_IMM_LEN);
	memcpy(s->body, &w->imm, sizeof(w->imm));
	s->body_len = RDMAP_IMM_LEN;
	next_request(c);
	return STEP_SEG;
}

static enum step send_segment(struct iw_qp *q, struct iw_cursor *c, struct seg *s,
			      const struct swqe *w)
{
	bool se = w->flags & IBV_SEND_SOLICITED, inv = w->opcode == IBV_WR_SEND_WITH_INV;

	s->ddp.ulp = rdmap_control(inv ? (se ? RDMAP_SEND_SE_INV : RDMAP_SEND_INV)
				       : (se ? RDMAP_SEND_SE : RDMAP_SEND));
	s->ddp.ulp_word = inv ? w->imm : 0;
	s->ddp.msn = c->msn[0];
	s->ddp.mo = c->off;
	s->off = c->off;
	s->len = least(w->length - c->off, q->mulpdu - DDP_UNTAGGED_LEN);
	s->ddp.last = c->off + s->len == w->length;
	c->off += s->len;
	c->begun = true;
	if (s->ddp.last) {
		c->msn[0]++;
		next_request(c);
	}
	return STEP_SEG;
}

static void untagged_request(struct iw_cursor *c, struct seg *s, enum rdmap_opcode op)
{
	s->ddp.last = true;
	s->ddp.ulp = rdmap_control(op);
	s->ddp.qn = 1;
	s->ddp.msn = c->msn[1]++;
}

static enum step read_segment(struct iw_qp *q, struct iw_cursor *c, struct seg *s,
			      struct swqe *w)
{
	const struct ibv_sge *sge = sq_sges(&q->qp->sq, c->cur);
	struct iw_read r = { .index = c->cur, .len = w->length };
	struct rdmap_read rr = {
		.len = w->length,
		.src_stag = w->rkey,
		.src_to = w->remote_addr,
	};

	if (w->num_sge) {
		r.stag = rr.sink_stag = sge->lkey;
		r.to = rr.sink_to = sge->addr;
	}
	w->state = WAITS;
	iw_read_note(q, c, &r);
	untagged_request(c, s, RDMAP_READ_REQUEST);
	rdmap_read_build(s->body, &rr);
	s->body_len = RDMAP_READ_LEN;
	next_request(c);
	return STEP_SEG;
}

static enum step atomic_segment(struct iw_qp *q, struct iw_cursor *c, struct seg *s,
				struct swqe *w)
{
	bool cas = w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	struct iw_read r = { .index = c->cur, .len = 8, .atomic = true, .id = c->msn[1] };
	struct rdmap_atomic a = {
		.op = cas ? RDMAP_CMP_SWAP : RDMAP_FETCH_ADD,
		.id = r.id,
		.stag = w->rkey,
		.to = w->remote_addr,
		.data = cas ? w->atomic.swap : w->atomic.compare_add,
		.mask = cas ? UINT64_MAX : 0,
		.compare = cas ? w->atomic.compare_add : 0,
		.compare_mask = cas ? UINT64_MAX : 0,
	};

	w->state = WAITS;
	iw_read_note(q, c, &r);
	untagged_request(c, s, RDMAP_ATOMIC_REQUEST);
	rdmap_atomic_build(s->body, &a);
	s->body_len = RDMAP_ATOMIC_LEN;
	next_request(c);
	return STEP_SEG;
}

/* RFC 6581, 9: the first frame; it completes no work request on either side. */
static enum step rtr_segment(struct iw_qp *q, struct iw_cursor *c, struct seg *s)
{
	struct rdmap_read none = { 0 };

	c->rtr_due = c->answered = false;
	switch (q->p.rtr) {
	case MPA_RTR_WRITE:
		s->ddp.tagged = s->ddp.last = true;
		s->ddp.ulp = rdmap_control(RDMAP_WRITE);
		return STEP_SEG;
	case MPA_RTR_READ:
		iw_read_note(q, c, &(struct iw_read){ .rtr = true });
		untagged_request(c, s, RDMAP_READ_REQUEST);
		rdmap_read_build(s->body, &none);
		s->body_len = RDMAP_READ_LEN;
		return STEP_SEG;
	case MPA_RTR_SEND:
		s->ddp.last = true;
		s->ddp.ulp = rdmap_control(RDMAP_SEND);
		s->ddp.msn = c->msn[0]++;
		return STEP_SEG;
	case MPA_RTR_NONE:
		break;
	}
	return STEP_AGAIN;
}

/* --- the next segment ------------------------------------------------------- */

/* May the work request at the cursor, which has not begun, be sent now? */
static enum step may_begin(struct iw_qp *q, struct iw_cursor *c, const struct swqe *w,
			   uint64_t now) REQUIRES(q->qp->lock)
{
	const struct wr *wr = wr_of(w);

	if (q->qp->state == IBV_QPS_SQD && !q->qp->sqd.draining) /* begins nothing new */
		return STEP_WAIT;
	if (w->flags & IBV_SEND_FENCE && q->reads.head != c->reads)
		return STEP_WAIT;
	if (!wr || (wqe_is_read(w) && q->p.ord == 0))
		return refuse(q, IBV_WC_LOC_QP_OP_ERR, VERR_LOCAL_OPERATION, now);
	if (!wr->wire)
		return local_work(q, c, now);
	if (wqe_too_long(w) || (wqe_is_atomic(w) && w->length != 8))
		return refuse(q, IBV_WC_LOC_LEN_ERR, VERR_TOO_LONG, now);
	if (wqe_is_read(w) && !iw_read_may_go(q, c))
		return STEP_WAIT;
	return STEP_SEG;
}

enum step iw_req_next(struct iw_qp *q, struct iw_cursor *c, struct seg *s,
		      struct work *work, uint64_t now)
{
	struct qp *qp = q->qp;
	struct swqe *w = sq_at(&qp->sq, c->cur);
	enum step step;

	if (c->rtr_due)
		return rtr_segment(q, c, s);
	if ((qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD) ||
	    c->cur == qp->sq.head || q->failed)
		return STEP_WAIT;
	if (c->imm)
		return imm_segment(c, s, w);
	if (!c->begun) {
		step = may_begin(q, c, w, now);
		if (step != STEP_SEG)
			return step;
	}
	if (wqe_resolve(qp, c->cur, &work->memory) != 0)
		return refuse(q, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_KEY, now);
	s->span = &work->memory.span;
	w->state = SENT;
	switch ((enum rdmap_opcode)wr_of(w)->opcode) {
	case RDMAP_READ_REQUEST:
		return read_segment(q, c, s, w);
	case RDMAP_ATOMIC_REQUEST:
		return atomic_segment(q, c, s, w);
	case RDMAP_WRITE:
		return write_segment(q, c, s, w);
	case RDMAP_SEND:
	case RDMAP_SEND_INV:
	case RDMAP_SEND_SE:
	case RDMAP_SEND_SE_INV:
		return send_segment(q, c, s, w);
	case RDMAP_READ_RESPONSE:
	case RDMAP_TERMINATE:
	case RDMAP_IMMEDIATE:
	case RDMAP_IMMEDIATE_SE:
	case RDMAP_ATOMIC_RESPONSE:
		break; /* no work requests */
	}
	return STEP_WAIT;
}
