/* SPDX-License-Identifier: BSD-2-Clause */
/* rsp.c - requests that the peer has written. */
#include "core/board.h"
#include "core/due.h"
#include "core/event.h"
#include "core/mr.h"
#include "local/local_qp.h"
#include "sys/log.h"

enum { ACK_NS = 50000 }; /* an ACK that was not asked for waits so long */

/* --- answers ------------------------------------------------------------- */

static void answer(struct local_qp *q, enum rec_nak code, uint32_t psn)
{
	struct local_rsp *s = &q->rsp;

	s->nak = (uint8_t)code;
	s->nak_psn = psn;
	s->nak_due = true;
	due_add(q->qp->core, q->qp);
}

static bool is_uc(const struct local_qp *q)
{
	return q->qp->type == IBV_QPT_UC;
}

/* How an RC QP answers a refusal. */
static const enum rec_nak nak_of[REFUSALS] = {
	[REFUSED_RECV_SHORT] = REC_INVALID, [REFUSED_RECV_SGE] = REC_OPERATION,
	[REFUSED_INVALIDATE] = REC_ACCESS,  [REFUSED_PLACE] = REC_INVALID,
	[REFUSED_LENGTH] = REC_INVALID,	    [REFUSED_TOO_LONG] = REC_INVALID,
	[REFUSED_OPERATION] = REC_INVALID,  [REFUSED_ALIGNMENT] = REC_INVALID,
	[REFUSED_TOO_MANY] = REC_INVALID,   [REFUSED_KEY] = REC_ACCESS,
	[REFUSED_MEMORY] = REC_OPERATION,
};

static void refused(const struct local_qp *q, const struct rec *r, uint32_t len,
		    const char *why)
{
	static const char *const name[REC_OPS] = {
		[REC_SEND] = "SEND",	       [REC_WRITE] = "WRITE",
		[REC_READ] = "READ",	       [REC_CMP_SWAP] = "CMP_SWAP",
		[REC_FETCH_ADD] = "FETCH_ADD",
	};

	log_info("QP 0x%06x: %s from QP 0x%06x, PSN %u, %u bytes: %s%s", q->qp->qpn,
		 name[r->op], r->src, r->psn, len, why,
		 q->qp->type == IBV_QPT_UC ? "; dropped" : "");
}

/* UC: the message is dropped.  Its receive is for the next (9.9.3, class D); one
 * from an SRQ ends in error (class E), and so does the QP whose receive cannot be
 * written to. */
static void drop(struct local_qp *q, enum refusal why, uint64_t now) REQUIRES(q->qp->lock)
{
	q->rsp.op = 0;
	if (why == REFUSED_RECV_SGE) {
		target_fail_recv(q->qp, &q->rsp.target, why, now);
		local_fail(q, false, -1, now);
	} else if (q->qp->srq) {
		target_fail_recv(q->qp, &q->rsp.target, REFUSED_PLACE, now);
	}
}

static void refuse(struct local_qp *q, const struct rec *r, uint32_t len,
		   enum refusal why, uint64_t now) REQUIRES(q->qp->lock)
{
	char text[TARGET_WHY_LEN];

	if (why == REFUSED_NO_RECV && !is_uc(q)) {
		q->rsp.dropping = true;
		answer(q, REC_RNR, q->rsp.epsn);
		return;
	}
	refused(q, r, len, target_why(&q->rsp.target, why, text));
	if (is_uc(q)) {
		drop(q, why, now);
		return;
	}
	target_fail_recv(q->qp, &q->rsp.target, why, now);
	answer(q, nak_of[why], q->rsp.epsn);
	local_fail(q, false, target_event(why), now);
}

/* --- the request was executed -------------------------------------------- */

static void accept(struct local_qp *q, const struct rec *r, uint32_t npkts, uint64_t now)
{
	struct local_rsp *s = &q->rsp;

	s->epsn = psn_add(s->epsn, npkts);
	s->op = r->flags & REC_LAST ? 0 : r->op;
	if (is_uc(q))
		return;
	if (r->op != REC_SEND && r->op != REC_WRITE) {
		s->ack_due = false; /* what answers a READ says as much */
		due_add(q->qp->core, q->qp);
		return;
	}
	if (r->flags & REC_ASKS)
		s->ack_at = 0;
	else if (!s->ack_due)
		s->ack_at = now + ACK_NS;
	if (s->ack_at == 0 || !s->ack_due) /* to go, or to set the timer */
		due_add(q->qp->core, q->qp);
	s->ack_due = true;
}

static void complete(struct local_qp *q, const struct rec *r, uint64_t now)
	REQUIRES(q->qp->lock)
{
	struct target *t = &q->rsp.target;
	bool write = r->op == REC_WRITE;
	struct cqe cqe = {
		.now = now,
		.opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		.byte_len = (uint32_t)(write ? t->write.len : t->filled),
		.src_qp = r->src,
		.sl = q->qp->path.sl,
	};

	if (r->flags & (REC_IMM | REC_INV)) {
		cqe.flags = r->flags & REC_IMM ? IBV_WC_WITH_IMM : IBV_WC_WITH_INV;
		cqe.imm = r->imm;
	}
	target_complete(q->qp, t, &cqe, r->flags & REC_SOLICITED);
}

static enum refusal do_send(struct local_qp *q, const struct rec *r,
			    const uint8_t *payload, uint32_t len, uint64_t now)
	REQUIRES(q->qp->lock)
{
	struct target *t = &q->rsp.target;
	enum refusal why = ACCEPTED;

	if (r->flags & REC_FIRST)
		why = target_take_recv(q->qp, t);
	if (!why)
		why = target_fill_recv(q->qp, t, payload, len);
	if (!why && r->flags & REC_LAST && r->flags & REC_INV)
		why = target_invalidate(q->qp, r->imm);
	if (why)
		return why;
	accept(q, r, packets(q, len), now);
	if (r->flags & REC_LAST)
		complete(q, r, now);
	return ACCEPTED;
}

static enum refusal do_write(struct local_qp *q, const struct rec *r,
			     const uint8_t *payload, uint32_t len, uint64_t now)
	REQUIRES(q->qp->lock)
{
	struct target *t = &q->rsp.target;
	bool last = r->flags & REC_LAST;
	enum refusal why = ACCEPTED;

	if (r->flags & REC_FIRST) {
		why = target_begin_write(q->qp, t, r->rkey, r->va, r->len);
		if (r->flags & REC_EMPTY) /* it says that it has written */
			t->write.left = 0;
	}
	if (!why && (last ? len != t->write.left : len >= t->write.left))
		why = REFUSED_LENGTH;
	if (!why && last && r->flags & REC_IMM)
		why = target_take_recv(q->qp, t);
	if (!why)
		why = target_write(q->qp, t, payload, len);
	if (why)
		return why;
	accept(q, r, packets(q, len), now);
	if (last && r->flags & REC_IMM)
		complete(q, r, now);
	return ACCEPTED;
}

static bool is_full(const struct local_rsp *s, const struct qp *qp)
{
	return s->owed_n >= qp->attr.max_dest_rd_atomic || s->owed_n == s->owed_size;
}

static void owe(struct local_qp *q, const struct owed *o)
{
	struct local_rsp *s = &q->rsp;

	s->owed[(s->owed_head + s->owed_n++) % s->owed_size] = *o;
}

static enum refusal do_read(struct local_qp *q, const struct rec *r, uint64_t now)
{
	struct owed o = {
		.psn = q->rsp.epsn, .va = r->va, .rkey = r->rkey, .len = r->len
	};
	enum refusal why;
	uint8_t *host;

	why = target_check(q->qp, &q->rsp.target, r->rkey, r->va, r->len,
			   IBV_ACCESS_REMOTE_READ, &host);
	if (!why && is_full(&q->rsp, q->qp))
		why = REFUSED_TOO_MANY;
	if (why)
		return why;
	owe(q, &o);
	accept(q, r, packets(q, r->len), now);
	return ACCEPTED;
}

static enum refusal do_atomic(struct local_qp *q, const struct rec *r, uint64_t now)
{
	struct owed o = { .psn = q->rsp.epsn, .atomic = true };
	enum refusal why;
	uint64_t *at;

	why = target_check_atomic(q->qp, &q->rsp.target, r->rkey, r->va, &at);
	if (!why && is_full(&q->rsp, q->qp))
		why = REFUSED_TOO_MANY;
	if (why)
		return why;
	why = target_atomic(q->qp, r->rkey, at,
			    r->op == REC_CMP_SWAP ? &r->compare : NULL, r->swap_add,
			    &o.orig);
	if (why)
		return why;
	owe(q, &o);
	accept(q, r, 1, now);
	return ACCEPTED;
}

/* --- in ------------------------------------------------------------------ */

/* Does r begin a message where one may begin, or go on with the one under way? */
static bool in_place(const struct local_qp *q, const struct rec *r)
{
	return r->flags & REC_FIRST ? q->rsp.op == 0 : q->rsp.op == r->op;
}

static enum refusal carry_out(struct local_qp *q, const struct rec *r,
			      const uint8_t *payload, uint32_t len, uint64_t now)
	REQUIRES(q->qp->lock)
{
	bool data = r->op == REC_SEND || r->op == REC_WRITE;

	if (!in_place(q, r) || (!data && (len || !(r->flags & REC_LAST))) ||
	    (data && !(r->flags & REC_LAST) && (len == 0 || len % q->mtu)))
		return REFUSED_PLACE;
	switch ((enum rec_op)r->op) {
	case REC_SEND:
		return do_send(q, r, payload, len, now);
	case REC_WRITE:
		return do_write(q, r, payload, len, now);
	case REC_READ:
		return do_read(q, r, now);
	case REC_CMP_SWAP:
	case REC_FETCH_ADD:
		return do_atomic(q, r, now);
	case REC_PAD:
	case REC_ACK:
	case REC_NAK:
	case REC_READ_RESP:
	case REC_ATOMIC_RESP:
	case REC_DGRAM:
	case REC_OPS:
		break;
	}
	return ACCEPTED;
}

static void execute(struct local_qp *q, const struct rec *r, const uint8_t *payload,
		    uint32_t len, uint64_t now) REQUIRES(q->qp->lock)
{
	enum refusal why = carry_out(q, r, payload, len, now);

	if (why)
		refuse(q, r, len, why, now);
}

/* UC, 9.8.2: a gap ends the message under way; the next that begins is taken. */
static void uc_request(struct local_qp *q, const struct rec *r, const uint8_t *payload,
		       uint32_t len, uint64_t now) REQUIRES(q->qp->lock)
{
	struct local_rsp *s = &q->rsp;

	if (r->op != REC_SEND && r->op != REC_WRITE)
		return;
	if ((r->psn != s->epsn || !in_place(q, r)) && s->op)
		drop(q, REFUSED_PLACE, now); /* the one before it has no end */
	if (r->psn != s->epsn || !in_place(q, r)) {
		if (!(r->flags & REC_FIRST))
			return;
		s->epsn = r->psn & PSN_MASK;
	}
	execute(q, r, payload, len, now);
}

void lrsp_request(struct local_qp *q, const struct rec *r, const uint8_t *payload,
		  uint32_t len, uint64_t now)
{
	struct local_rsp *s = &q->rsp;

	if (is_uc(q)) {
		uc_request(q, r, payload, len, now);
		return;
	}
	if (r->psn != s->epsn) {
		/* Asked again it says so again: what is wrong may be right by
		 * then, and who is not answered does not ask. */
		if (s->dropping && r->psn != s->nak_psn)
			return;
		if (!s->dropping)
			refused(q, r, len, "another PSN is expected");
		s->dropping = true;
		answer(q, REC_NOT_READY, r->psn);
		return;
	}
	s->dropping = false;
	if (s->nak_due && s->nak == REC_NOT_READY)
		s->nak_due = false; /* about what is behind this one */
	execute(q, r, payload, len, now);
	if (s->epsn != r->psn)
		board_set_executed(q->qp->core, q->qp->qpn, s->epsn);
}
