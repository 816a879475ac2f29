/* SPDX-License-Identifier: BSD-2-Clause */
/* req.c - work requests become records. */
#include <inttypes.h>

#include "core/device.h"
#include "core/due.h"
#include "core/mr.h"
#include "core/timeout.h"
#include "core/wr_op.h"
#include "local/local_qp.h"
#include "sys/log.h"

enum step {
	STEP_GO,   /* on with this work request */
	STEP_NEXT, /* one is done */
	STEP_WAIT, /* nothing may be sent now */
};

enum {
	SMALL = 4096,		       /* by a record if anything is out */
	LARGE = RING_SLOTS * SLOT / 2, /* from here on worth waiting for */
	ASK_EVERY = 32,		       /* messages */
};

/* The work request at cur has failed here; told when it is the oldest. */
static enum step refuse(struct local_qp *q, enum ibv_wc_status status, enum verr verr,
			uint64_t now) REQUIRES(q->qp->lock)
{
	wqe_refused(q->qp, sq_at(&q->qp->sq, q->req.cur), verr);
	q->req.failed = true;
	q->req.fail_status = status;
	q->req.fail_verr = verr;
	lreq_tell_error(q, now);
	return STEP_WAIT;
}

/* --- a work request's first step ----------------------------------------- */

static enum step local_work(struct local_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	enum ibv_wc_status st;
	enum verr verr;

	switch (wqe_local_work(q->qp, q->req.cur, &st, &verr, now)) {
	case WQE_WAITS:
		return STEP_WAIT;
	case WQE_FAILED:
		return refuse(q, st, verr, now);
	case WQE_DONE:
		break;
	}
	q->req.cur++;
	return STEP_NEXT;
}

static enum step begin(struct local_qp *q, struct swqe *w, struct wqe_memory *memory,
		       uint64_t now) REQUIRES(q->qp->lock)
{
	struct local_req *r = &q->req;
	const struct wr_op *op = wr_op(w->opcode);
	struct qp *qp = q->qp;

	if (qp->state != IBV_QPS_RTS) /* SQD: nothing new */
		return STEP_WAIT;
	/* C10-97: a fence waits for READs and atomics before it. */
	if (w->flags & IBV_SEND_FENCE && r->reads)
		return STEP_WAIT;
	if (!op || !wr_op_allowed(op, qp->type) ||
	    (wqe_is_read(w) && qp->attr.max_rd_atomic == 0))
		return refuse(q, IBV_WC_LOC_QP_OP_ERR, VERR_LOCAL_OPERATION, now);
	if (w->opcode == IBV_WR_BIND_MW || w->opcode == IBV_WR_LOCAL_INV)
		return local_work(q, now);
	if (wqe_too_long(w))
		return refuse(q, IBV_WC_LOC_LEN_ERR, VERR_TOO_LONG, now);
	if (wqe_resolve(q->qp, q->req.cur, memory) != 0)
		return refuse(q, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_KEY, now);
	w->psn = r->psn;
	w->npkts = packets(q, wqe_is_atomic(w) ? 8 : w->length);
	w->done = 0;
	r->begun = true;
	return STEP_GO;
}

/* --- records ------------------------------------------------------------- */

static enum step no_room(struct local_qp *q, uint64_t now)
{
	q->req.full = true;
	lreq_arm(q, now);
	return STEP_WAIT;
}

/* The record has gone out: n more PSNs. */
static void moved_on(struct local_qp *q, const struct swqe *w, uint32_t n, uint64_t now)
{
	struct local_req *r = &q->req;

	r->psn = psn_add(r->psn, n);
	if (psn_off(r->psn, w->psn) >= w->npkts) {
		r->cur++;
		r->begun = r->by_record = false;
	}
	lreq_arm(q, now);
}

static void tail_of(const struct swqe *w, struct rec *rec)
{
	rec->flags |= REC_LAST;
	rec->imm = w->imm;
	if (w->flags & IBV_SEND_SOLICITED)
		rec->flags |= REC_SOLICITED;
	if (w->opcode == IBV_WR_SEND_WITH_IMM || w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		rec->flags |= REC_IMM;
	if (w->opcode == IBV_WR_SEND_WITH_INV)
		rec->flags |= REC_INV;
}

/* Nobody waits for the end of a message whose completion is not wanted, unless
 * the send queue fills: one ACK for many is cheaper for both. */
static bool asks(struct local_qp *q, const struct swqe *w)
{
	const struct sq *sq = &q->qp->sq;

	if (!(w->flags & IBV_SEND_SIGNALED) && ++q->req.unasked < ASK_EVERY &&
	    sq->head - sq->tail < sq->cap / 2 && q->qp->state == IBV_QPS_RTS)
		return false;
	q->req.unasked = 0;
	return true;
}

/* Nobody reads what is written, and UC waits for nobody. */
static bool lost(struct local_qp *q, uint64_t now)
{
	if (q->qp->type != IBV_QPT_UC || peer_reads(q->peer, now))
		return false;
	list_del(&q->full);
	return true;
}

static enum step sent(struct local_qp *q, const struct swqe *w, uint32_t *left,
		      uint32_t len, uint64_t now)
{
	*left -= *left < len ? *left : len;
	moved_on(q, w, packets(q, len), now);
	return STEP_GO;
}

static enum step send_data(struct local_qp *q, struct swqe *w, struct wqe_memory *memory,
			   uint32_t *left, uint64_t now) REQUIRES(q->qp->lock)
{
	bool write =
		w->opcode == IBV_WR_RDMA_WRITE || w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct local_req *r = &q->req;
	bool empty = write && w->length && w->done == w->length;
	uint32_t off = psn_off(r->psn, w->psn) * q->mtu;
	uint32_t len = empty ? 0 : w->length - off;
	uint32_t head = write && off == 0 ? REC_HEAD_RMA : REC_HEAD;
	struct rec *rec;

	if (len > RING_CHUNK)
		len = RING_CHUNK;
	if (psn_off(r->psn, r->una) + packets(q, len) >= PSN_WINDOW)
		return STEP_WAIT;
	if (wqe_resolve(q->qp, q->req.cur, memory) != 0)
		return refuse(q, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_KEY, now);
	rec = rec_new(q, write ? REC_WRITE : REC_SEND, head, len);
	if (!rec)
		return lost(q, now) ? sent(q, w, left, len, now) : no_room(q, now);
	if (len && span_copy((uint8_t *)rec + head, &memory->span, off, len) != 0)
		return refuse(q, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_FAULT, now);
	rec->psn = r->psn;
	if (off == 0)
		rec->flags |= REC_FIRST;
	if (head == REC_HEAD_RMA) {
		rec->va = w->remote_addr;
		rec->rkey = w->rkey;
		rec->len = w->length;
	}
	if (empty)
		rec->flags |= REC_EMPTY;
	if (empty || off + len == w->length)
		tail_of(w, rec);
	if (!(rec->flags & REC_LAST) || asks(q, w))
		rec->flags |= REC_ASKS;
	rec_send(q, rec, head, len);
	return sent(q, w, left, len, now);
}

static enum step send_read(struct local_qp *q, struct swqe *w, uint64_t now)
{
	struct local_req *r = &q->req;
	uint32_t i = psn_off(r->psn, w->psn);
	struct rec *rec;

	if (r->reads >= q->qp->attr.max_rd_atomic ||
	    psn_off(r->psn, r->una) + w->npkts - i > PSN_WINDOW)
		return STEP_WAIT;
	rec = rec_new(q, REC_READ, REC_HEAD_RMA, 0);
	if (!rec)
		return no_room(q, now);
	rec->psn = r->psn;
	rec->flags |= REC_FIRST | REC_LAST;
	rec->va = w->remote_addr + (uint64_t)i * q->mtu;
	rec->rkey = w->rkey;
	rec->len = w->length - i * q->mtu;
	rec_send(q, rec, REC_HEAD_RMA, 0);
	r->reads++;
	moved_on(q, w, w->npkts - i, now);
	return STEP_GO;
}

static enum step send_atomic(struct local_qp *q, struct swqe *w, uint64_t now)
{
	bool cas = w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	struct local_req *r = &q->req;
	struct rec *rec;

	if (r->reads >= q->qp->attr.max_rd_atomic ||
	    psn_off(r->psn, r->una) + 1 >= PSN_WINDOW)
		return STEP_WAIT;
	rec = rec_new(q, cas ? REC_CMP_SWAP : REC_FETCH_ADD, REC_HEAD_RMA, 0);
	if (!rec)
		return no_room(q, now);
	rec->psn = r->psn;
	rec->flags |= REC_FIRST | REC_LAST;
	rec->va = w->remote_addr;
	rec->rkey = w->rkey;
	rec->len = 8;
	rec->swap_add = cas ? w->atomic.swap : w->atomic.compare_add;
	rec->compare = cas ? w->atomic.compare_add : 0;
	rec_send(q, rec, REC_HEAD_RMA, 0);
	if (q->peer->reach.vm && reach_used(&q->peer->reach, w->rkey))
		meet_ask_map(q->peer, w->rkey);
	r->reads++;
	moved_on(q, w, 1, now);
	return STEP_GO;
}

/* UC is done when it is sent. */
static enum step sent_all(struct local_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct local_req *r = &q->req;

	if (q->qp->type != IBV_QPT_UC || r->begun)
		return STEP_GO;
	r->una = r->psn;
	sq_complete(q->qp, IBV_WC_SUCCESS, VERR_NONE, now);
	return STEP_NEXT;
}

/* --- without the peer ---------------------------------------------------- */

/* A packet with an immediate that finds no receive writes nothing: so what is
 * one packet on a wire must not be written before. */
static bool is_rma(const struct local_qp *q, const struct swqe *w)
{
	return w->opcode == IBV_WR_RDMA_WRITE || w->opcode == IBV_WR_RDMA_READ ||
	       (w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && w->length > q->mtu);
}

static enum step done_directly(struct local_qp *q, struct swqe *w, uint64_t now)
	REQUIRES(q->qp->lock)
{
	struct local_req *r = &q->req;

	lreq_progress(q, now);
	if (w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) { /* the rest by a record */
		r->by_record = true;
		w->npkts = 1;
		w->done = w->length;
		return STEP_GO;
	}
	r->begun = r->by_record = false;
	r->cur++;
	sq_complete(q->qp, IBV_WC_SUCCESS, VERR_NONE, now);
	return STEP_NEXT;
}

static struct range range_of(const struct swqe *w)
{
	return (struct range){ w->remote_addr, w->rkey, w->length };
}

/* If not there is nothing to wait for. */
static bool may_copy(const struct local_qp *q, const struct swqe *w)
{
	const struct by by = local_by(q);
	const struct range there = range_of(w);

	return reach_may(&by, &there, w->opcode == IBV_WR_RDMA_READ);
}

enum copied {
	COPIED_NONE, /* by a record, please */
	COPIED_ALL,
	COPIED_SOME, /* *left is used up */
};

/* The WRITE or READ w, which is q's oldest, whose SGEs are span. */
static enum copied copy(struct local_qp *q, struct swqe *w, const struct span *span,
			uint32_t *left)
{
	const struct by by = local_by(q);
	const struct range there = range_of(w);
	struct local_req *r = &q->req;
	uint32_t len = w->length - r->direct;

	if (len == 0)
		return COPIED_NONE;
	if (len > *left)
		len = *left;
	if (!(w->opcode == IBV_WR_RDMA_READ
		      ? reach_read(&by, &there, span, r->direct, len)
		      : reach_write(&by, &there, span, r->direct, len))) {
		r->direct = 0;
		return COPIED_NONE;
	}
	if (reach_used(by.r, w->rkey))
		meet_ask_map(q->peer, w->rkey);
	r->direct += len;
	q->l->count.direct++;
	q->l->count.direct_bytes += len;
	*left -= len;
	q->l->core->spent += len / 4096 + 1;
	if (r->direct < w->length)
		return COPIED_SOME;
	r->direct = 0;
	return COPIED_ALL;
}

/* STEP_GO: by records. */
static enum step directly(struct local_qp *q, struct swqe *w, struct wqe_memory *memory,
			  uint32_t *left, uint64_t now) REQUIRES(q->qp->lock)
{
	struct local_req *r = &q->req;

	/* UC is not told what has been executed, so nothing may be overtaken. */
	if (q->qp->type != IBV_QPT_RC || !is_rma(q, w) || r->by_record ||
	    r->psn != w->psn || w->done)
		return STEP_GO;
	if (!q->peer->reach.vm) {
		if (q->peer->reach.shut_out)
			meet_ask_gate(q->peer, now);
		return STEP_GO;
	}
	/* Nothing may be overtaken. */
	if (r->una != r->psn || r->cur != q->qp->sq.tail) {
		if (w->length <= SMALL || !may_copy(q, w))
			return STEP_GO;
		if (!lreq_all_executed(q, now))
			return w->length > LARGE ? STEP_WAIT : STEP_GO;
	}
	if (wqe_resolve(q->qp, q->req.cur, memory) != 0)
		return refuse(q, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_KEY, now);
	switch (copy(q, w, &memory->span, left)) {
	case COPIED_ALL:
		return done_directly(q, w, now);
	case COPIED_SOME:
		return STEP_NEXT;
	case COPIED_NONE:
		break;
	}
	r->by_record = true;
	return STEP_GO;
}

/* --- by who posts -------------------------------------------------------- */

/* Nothing may be overtaken, nor an answer that is to go now. */
static bool is_next(struct local_qp *q, uint32_t index, uint32_t key)
	REQUIRES(q->qp->lock)
{
	const struct local_req *r = &q->req;
	const struct local_rsp *s = &q->rsp;

	if (!q->peer || q->qp->type != IBV_QPT_RC || r->cur != index || r->begun ||
	    r->failed || r->lost || r->hold_until || s->nak_due || s->owed_n ||
	    (s->ack_due && !s->ack_at))
		return false;
	if (r->una != r->psn) {
		const struct by by = local_by(q);

		return r->reads == 0 && reach_executed_now(&by, key, r->psn) &&
		       lreq_executed(q, clock_ns());
	}
	return true; /* what has no PSNs out is complete */
}

bool lreq_at_once(struct qp *qp, const struct ibv_sge *sge)
{
	struct local_qp *q = local_qp(qp);
	uint32_t index = qp->sq.head - 1;
	const struct swqe *w = sq_at(&qp->sq, index);
	enum reach_did did;
	struct by by;

	qp_is_held(q->qp);
	qp_is_held(qp);
	if (!is_next(q, index, w->rkey))
		return false;
	by = local_by(q);
	did = reach_at_once(&by, &q->allowed, w, sge);
	if (did == REACH_NOT)
		return false;
	q->at_once++;
	q->at_once_bytes += w->length;
	q->req.cur++;
	if (did == REACH_DONE) {
		sq_complete(qp, IBV_WC_SUCCESS, VERR_NONE,
			    qp->send_cq->stamped ? clock_ns() : 0);
	} else {
		sq_complete(qp, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_FAULT, clock_ns());
		qp_fail(qp, false, -1, clock_ns()); /* the engine settles it */
	}
	return true;
}

static enum step step(struct local_qp *q, struct wqe_memory *memory, uint32_t *left,
		      uint64_t now) REQUIRES(q->qp->lock)
{
	struct local_req *r = &q->req;
	struct swqe *w = sq_at(&q->qp->sq, r->cur);
	enum step s;

	if (!lreq_alive(q) || r->cur == q->qp->sq.head || r->failed ||
	    now < r->hold_until)
		return STEP_WAIT;
	if (!r->begun) {
		s = begin(q, w, memory, now);
		if (s != STEP_GO)
			return s;
	}
	s = directly(q, w, memory, left, now);
	if (s != STEP_GO)
		return s;
	if (w->opcode == IBV_WR_RDMA_READ)
		return send_read(q, w, now);
	if (wqe_is_atomic(w))
		return send_atomic(q, w, now);
	s = send_data(q, w, memory, left, now);
	return s == STEP_GO ? sent_all(q, now) : s;
}

bool lreq_output(struct local_qp *q, uint64_t now)
{
	struct wqe_memory memory;
	uint32_t left = SHARE;

	memory.resolved = false; /* the rest is large */
	q->req.full = false;
	for (int n = 0; left > 0 && n < 2 * SERVE; n++)
		if (step(q, &memory, &left, now) == STEP_WAIT)
			return false;
	return q->req.cur != q->qp->sq.head;
}

void lreq_blocked(struct local_qp *q, uint64_t now)
{
	const struct local_req *r = &q->req;
	bool more = r->begun || (q->qp->state == IBV_QPS_RTS && r->cur != q->qp->sq.head);

	if (more && !r->failed && now >= r->hold_until)
		no_room(q, now);
}
