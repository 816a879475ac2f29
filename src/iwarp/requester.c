/* SPDX-License-Identifier: BSD-2-Clause */
/* requester.c - turns work requests into segments (RFC 5040, 5; RFC 7306, 5, 6).
 *
 * One cursor walks over the send queue.  A plan moves a copy of it, and the plan may be
 * dropped: so the functions here change of a work request only fields that are written
 * anew each time. */
#include <string.h>

#include "iwarp/iw_qp.h"
#include "verbs/device.h"

/* The message of each kind of work request: enum rdmap_opcode. */
static const uint8_t messages[] = {
#define OP(name, types, traits, wc, claim, ib_kind, ib_tail, rdmap)                      \
	[IBV_WR_##name] = rdmap,
#include "verbs/wr_op.def"
};

void iw_req_reset(struct iw_qp *q)
{
	memset(&q->c, 0, sizeof(q->c));
	send_reset(q->qp, &q->src, &q->c.s, 0);
	for (int i = 0; i < RDMAP_QUEUES; i++)
		q->c.msn[i] = 1;
	q->resources.tail = 0;
	q->tail_at = q->tail_end = 0;
	q->careful = false;
	q->budget = BUDGET_MIN * 4;
	q->answers = (struct answers){ 0 };
	q->held_until = 0;
}

/* --- how work requests end ----------------------------------------------- */

static bool is_alive(const struct iw_qp *q)
{
	return q->life == LIFE_OPEN && q->qp->state != IBV_QPS_ERR;
}

void iw_req_flush(struct iw_qp *q, uint32_t until, uint64_t now)
{
	while (is_alive(q) && q->qp->sq.tail != until)
		send_end(q->qp, &q->src, &q->c.s, IBV_WC_WR_FLUSH_ERR, VERR_FLUSHED, now);
}

/* Is the oldest work request also the last, and does its completion wait? */
static bool is_held(const struct iw_qp *q, uint64_t now)
{
	const struct sq *sq = &q->qp->sq;

	return now < q->held_until && sq->head - sq->tail == 1 && !q->src.failed;
}

void iw_req_complete(struct iw_qp *q, uint64_t now)
{
	/* A message is sent when the stream took its last byte. */
	uint32_t gone = q->tail_at < q->tail_end ? q->tail_psn : q->c.s.psn;
	struct send_source *s = &q->src;
	struct send_part part;

	while (is_alive(q) && !is_held(q, now) &&
	       send_part(q->qp, s, &q->c.s, gone, &part))
		(void)send_took(q->qp, s, &part, now);
	/* A message that cannot go on blocks all others, perhaps the responses that the
	 * peer waits for: so work requests before it are not waited for but flushed. */
	if (!is_alive(q) || !s->failed ||
	    (!send_fails(q->qp, s, &q->c.s) && !send_has_begun(&q->c.s)))
		return;
	s->failed = false;
	q->held_until = 0;
	iw_req_flush(q, q->c.s.cur, now);
	if (is_alive(q))
		send_end(q->qp, s, &q->c.s, s->fail_status, s->fail_verr, now);
	/* A part of the message may have been sent. */
	iw_terminate(q, TERM_RDMAP_LOCAL, NULL, 0, NULL, -1, now);
}

void iw_req_gone(struct iw_qp *q, uint64_t now)
{
	const struct swqe *last = sq_at(&q->qp->sq, q->c.s.cur - 1);

	q->held_until = 0;
	/* The peer's NIC answers a READ: that tells nothing about the program. */
	if (q->c.s.cur != q->qp->sq.head || q->tail_at < q->tail_end || wqe_is_read(last))
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
	send_refuse(&q->src, status, verr);
	iw_req_complete(q, now);
}

static enum step refuse_request(struct iw_qp *q, enum ibv_wc_status status,
				enum verr verr, uint64_t now) REQUIRES(q->qp->lock)
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
	switch (send_locally(q->qp, &q->c.s, &st, &verr, now)) {
	case END_WAITS:
		return STEP_WAIT;
	case END_FAILED:
		return refuse_request(q, st, verr, now);
	case END_DONE:
		break;
	}
	c->s = q->c.s;
	return q->qp->state == IBV_QPS_ERR ? STEP_WAIT : STEP_AGAIN;
}

/* --- segments ------------------------------------------------------------ */

/* The last segment of a message of w was sent. */
static void end_message(const struct iw_qp *q, struct iw_cursor *c, const struct swqe *w)
{
	send_move(&q->src, &c->s, w, 1);
	c->off = 0;
	c->answered = false;
}

static uint32_t least_of(uint32_t a, size_t b)
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
	s->len = least_of(w->length - c->off, q->mulpdu - DDP_TAGGED_LEN);
	s->ddp.last = c->off + s->len == w->length;
	c->off += s->len;
	if (s->ddp.last)
		end_message(q, c, w);
	return STEP_SEG;
}

/* RFC 7306, 6: eight bytes, of which verbs' immediate is the first four. */
static enum step imm_segment(const struct iw_qp *q, struct iw_cursor *c, struct seg *s,
			     const struct swqe *w)
{
	bool se = w->flags & IBV_SEND_SOLICITED;

	s->ddp.last = true;
	s->ddp.ulp = rdmap_control(se ? RDMAP_IMMEDIATE_SE : RDMAP_IMMEDIATE);
	s->ddp.msn = c->msn[0]++;
	memset(s->body, 0, RDMAP_IMM_LEN);
	memcpy(s->body, &w->imm, sizeof(w->imm));
	s->body_len = RDMAP_IMM_LEN;
	end_message(q, c, w);
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
	s->len = least_of(w->length - c->off, q->mulpdu - DDP_UNTAGGED_LEN);
	s->ddp.last = c->off + s->len == w->length;
	c->off += s->len;
	if (s->ddp.last) {
		c->msn[0]++;
		end_message(q, c, w);
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
			      const struct swqe *w)
{
	const struct ibv_sge *sge = sq_sges(&q->qp->sq, c->s.cur);
	struct iw_read r = { .index = c->s.cur, .len = w->length };
	struct rdmap_read rr = {
		.len = w->length,
		.src_stag = w->rkey,
		.src_to = w->remote_addr,
	};

	if (w->num_sge) {
		r.stag = rr.sink_stag = sge->lkey;
		r.to = rr.sink_to = sge->addr;
	}
	iw_read_note(q, c, &r);
	untagged_request(c, s, RDMAP_READ_REQUEST);
	rdmap_read_build(s->body, &rr);
	s->body_len = RDMAP_READ_LEN;
	end_message(q, c, w);
	return STEP_SEG;
}

static enum step atomic_segment(struct iw_qp *q, struct iw_cursor *c, struct seg *s,
				const struct swqe *w)
{
	bool cas = w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	struct iw_read r = {
		.index = c->s.cur, .len = 8, .atomic = true, .id = c->msn[1]
	};
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

	iw_read_note(q, c, &r);
	untagged_request(c, s, RDMAP_ATOMIC_REQUEST);
	rdmap_atomic_build(s->body, &a);
	s->body_len = RDMAP_ATOMIC_LEN;
	end_message(q, c, w);
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

/* Is it a WRITE with immediate whose WRITE was sent? */
static bool owes_imm(const struct iw_cursor *c, const struct swqe *w)
{
	return send_has_begun(&c->s) && c->s.psn != w->psn;
}

/* May the work request at the cursor, which has not begun, be sent now? */
static enum step may_begin(struct iw_qp *q, struct iw_cursor *c, const struct swqe *w,
			   uint64_t now) REQUIRES(q->qp->lock)
{
	const struct send_limits limits = {
		.reads = q->p.ord,
		.bytes = caps.max_msg,
		.drains = true,
	};

	switch (send_may(q->qp, &q->src, &c->s, w, &limits)) {
	case SEND_GO:
		break;
	case SEND_WAIT:
		return STEP_WAIT;
	case SEND_LOCAL:
		return local_work(q, c, now);
	case SEND_BAD_OP:
		return refuse_request(q, IBV_WC_LOC_QP_OP_ERR, VERR_LOCAL_OPERATION, now);
	case SEND_TOO_LONG:
		return refuse_request(q, IBV_WC_LOC_LEN_ERR, VERR_TOO_LONG, now);
	}
	if (wqe_is_atomic(w) && w->length != 8)
		return refuse_request(q, IBV_WC_LOC_LEN_ERR, VERR_TOO_LONG, now);
	return wqe_is_read(w) && !send_may_read(&q->src, &c->s, &limits) ? STEP_WAIT
									 : STEP_SEG;
}

enum step iw_req_next(struct iw_qp *q, struct iw_cursor *c, struct seg *s,
		      struct work *work, uint64_t now)
{
	struct qp *qp = q->qp;
	struct swqe *w = sq_at(&qp->sq, c->s.cur);
	enum step step;

	if (c->rtr_due)
		return rtr_segment(q, c, s);
	if (!send_any(qp, &q->src, &c->s))
		return STEP_WAIT;
	if (owes_imm(c, w))
		return imm_segment(q, c, s, w);
	if (!send_has_begun(&c->s)) {
		step = may_begin(q, c, w, now);
		if (step != STEP_SEG)
			return step;
	}
	if (wqe_resolve(qp, c->s.cur, &work->memory) != 0)
		return refuse_request(q, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_KEY, now);
	s->span = &work->memory.span;
	if (!send_has_begun(&c->s))
		send_begin(&c->s, w, w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? 2 : 1);
	switch ((enum rdmap_opcode)messages[w->opcode]) {
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
