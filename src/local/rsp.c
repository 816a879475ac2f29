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

/* The request ends the QP. */
static void nak(struct local_qp *q, enum rec_nak code, int event, uint64_t now)
{
	if (q->qp->type == IBV_QPT_RC)
		answer(q, code, q->rsp.epsn);
	local_fail(q, false, event, now);
}

static void refused(const struct local_qp *q, const struct rec *r, uint32_t len,
		    const char *why)
{
	static const char *const name[REC_OPS] = {
		[REC_SEND] = "SEND",	       [REC_WRITE] = "WRITE",
		[REC_READ] = "READ",	       [REC_CMP_SWAP] = "CMP_SWAP",
		[REC_FETCH_ADD] = "FETCH_ADD",
	};

	log_info("QP 0x%06x: %s from QP 0x%06x, PSN %u, %u bytes: %s", q->qp->qpn,
		 name[r->op], r->src, r->psn, len, why);
}

/* --- receives ------------------------------------------------------------ */

static const struct pd *recv_pd(const struct local_qp *q)
{
	return q->qp->srq ? q->qp->srq->pd : q->qp->pd;
}

static bool take_recv(struct local_qp *q)
{
	struct local_rsp *s = &q->rsp;

	if (!s->have_recv)
		s->have_recv = qp_pop_recv(q->qp, &s->recv);
	s->filled = 0;
	return s->have_recv;
}

static void complete(struct local_qp *q, const struct rec *r, uint64_t now)
{
	struct local_rsp *s = &q->rsp;
	bool write = r->op == REC_WRITE;
	struct cqe cqe = {
		.now = now,
		.status = IBV_WC_SUCCESS,
		.opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		.byte_len = (uint32_t)(write ? s->write.len : s->filled),
		.src_qp = r->src,
		.sl = q->qp->av.sl,
		.imm = r->imm,
	};

	if (r->flags & REC_IMM)
		cqe.flags = IBV_WC_WITH_IMM;
	else if (r->flags & REC_INV)
		cqe.flags = IBV_WC_WITH_INV;
	else
		cqe.imm = 0;
	s->have_recv = false;
	rq_complete(q->qp, &s->recv, &cqe, r->flags & REC_SOLICITED);
}

static void complete_error(struct local_qp *q, enum ibv_wc_status status, enum verr verr,
			   uint64_t now)
{
	struct cqe cqe = {
		.now = now,
		.status = (uint8_t)status,
		.opcode = IBV_WC_RECV,
		.vendor_err = verr,
		.src_qp = q->qp->attr.dest_qp_num,
	};

	q->rsp.have_recv = false;
	rq_complete(q->qp, &q->rsp.recv, &cqe, true);
}

/* --- how requests are refused -------------------------------------------- */

static bool is_uc(const struct local_qp *q)
{
	return q->qp->type == IBV_QPT_UC;
}

/* UC: the message is dropped.  Its receive is for the next (9.9.3, class D); one
 * from an SRQ ends in error (class E). */
static void drop(struct local_qp *q, const struct rec *r, const char *why, uint64_t now)
{
	log_info("QP 0x%06x: a message from QP 0x%06x, PSN %u: %s; dropped", q->qp->qpn,
		 r->src, r->psn, why);
	q->rsp.op = 0;
	if (q->rsp.have_recv && q->qp->srq)
		complete_error(q, IBV_WC_REM_INV_REQ_ERR, VERR_REQUEST_INVALID, now);
}

/* C9-68 and others: the request breaks the rules. */
static void invalid(struct local_qp *q, const struct rec *r, uint32_t len,
		    const char *why, uint64_t now)
{
	if (is_uc(q)) {
		drop(q, r, why, now);
		return;
	}
	refused(q, r, len, why);
	if (q->rsp.have_recv)
		complete_error(q, IBV_WC_REM_INV_REQ_ERR, VERR_REQUEST_INVALID, now);
	nak(q, REC_INVALID, IBV_EVENT_QP_REQ_ERR, now);
}

static void access_error(struct local_qp *q, const struct rec *r, uint64_t now)
{
	if (is_uc(q)) {
		drop(q, r, "it has no right to the memory", now);
		return;
	}
	if (q->rsp.have_recv)
		complete_error(q, IBV_WC_LOC_ACCESS_ERR, VERR_REQUEST_ACCESS, now);
	nak(q, REC_ACCESS, IBV_EVENT_QP_ACCESS_ERR, now);
}

static void gone(struct local_qp *q, const struct rec *r, uint32_t len, uint64_t now)
{
	if (is_uc(q)) {
		drop(q, r, "the region's memory is not mapped", now);
		return;
	}
	refused(q, r, len, "the region's memory is not mapped");
	nak(q, REC_OPERATION, IBV_EVENT_QP_ACCESS_ERR, now);
}

/* No receive is posted.  True: there is one. */
static bool need_recv(struct local_qp *q, const struct rec *r, uint64_t now)
{
	if (take_recv(q))
		return true;
	if (is_uc(q)) {
		drop(q, r, "no receive is posted", now);
		return false;
	}
	q->rsp.dropping = true;
	answer(q, REC_RNR, q->rsp.epsn);
	return false;
}

/* 9.7.4.1.5: what the QP does not allow is an invalid request. */
static bool qp_allows(struct local_qp *q, const struct rec *r, int access, uint64_t now)
{
	if ((q->qp->attr.qp_access_flags & (unsigned)access) == (unsigned)access)
		return true;
	invalid(q, r, r->len, "not among the QP's qp_access_flags", now);
	return false;
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

static void do_send(struct local_qp *q, const struct rec *r, const uint8_t *payload,
		    uint32_t len, uint64_t now)
{
	struct local_rsp *s = &q->rsp;
	struct qp *qp = q->qp;
	int rc;

	if (r->flags & REC_FIRST && !need_recv(q, r, now))
		return;
	if (len > s->recv.length - s->filled) {
		if (is_uc(q)) {
			drop(q, r, "longer than the receive that is posted", now);
			return;
		}
		refused(q, r, len, "longer than the receive that is posted");
		complete_error(q, IBV_WC_LOC_LEN_ERR, VERR_LOCAL_LENGTH, now);
		nak(q, REC_INVALID, -1, now);
		return;
	}
	rc = scatter(qp, recv_pd(q), s->recv.sge, s->recv.num_sge, s->filled, payload,
		     len);
	if (rc) {
		complete_error(q, IBV_WC_LOC_PROT_ERR, verr_of(rc), now);
		nak(q, REC_OPERATION, -1, now);
		return;
	}
	s->filled += len;
	if (r->flags & REC_LAST && r->flags & REC_INV &&
	    mkey_invalidate(qp->core, r->imm, qp->pd, qp->qpn) != 0) {
		refused(q, r, len, "the rkey cannot be invalidated");
		complete_error(q, IBV_WC_REM_INV_REQ_ERR, VERR_INVALIDATE, now);
		nak(q, REC_ACCESS, -1, now);
		return;
	}
	accept(q, r, packets(q, len), now);
	if (r->flags & REC_LAST)
		complete(q, r, now);
}

static bool begin_write(struct local_qp *q, const struct rec *r, uint64_t now)
{
	struct local_rsp *s = &q->rsp;
	uint8_t *host;

	s->write.va = r->va;
	s->write.rkey = r->rkey;
	s->write.len = s->write.left = r->len;
	if (!qp_allows(q, r, IBV_ACCESS_REMOTE_WRITE, now))
		return false;
	if (r->len > MAX_DMA) {
		invalid(q, r, r->len, "longer than 2^31 bytes", now);
		return false;
	}
	if (r->len > 0 &&
	    !lrsp_region_ok(q, r->rkey, r->va, r->len, IBV_ACCESS_REMOTE_WRITE, &host)) {
		access_error(q, r, now);
		return false;
	}
	if (r->flags & REC_EMPTY) /* it says that it has written */
		s->write.left = 0;
	return true;
}

/* False: refused. */
static bool place(struct local_qp *q, const struct rec *r, const uint8_t *payload,
		  uint32_t len, uint64_t now)
{
	struct local_rsp *s = &q->rsp;
	uint8_t *host;

	if (len == 0)
		return true;
	/* Again for every record: the region may be gone meanwhile. */
	if (!lrsp_region_ok(q, s->write.rkey, s->write.va, len, IBV_ACCESS_REMOTE_WRITE,
			    &host)) {
		access_error(q, r, now);
		return false;
	}
	if (mr_write(q->qp->core, s->write.rkey, host, payload, len) != 0) {
		gone(q, r, len, now);
		return false;
	}
	s->write.va += len;
	s->write.left -= len;
	return true;
}

static void do_write(struct local_qp *q, const struct rec *r, const uint8_t *payload,
		     uint32_t len, uint64_t now)
{
	bool last = r->flags & REC_LAST;

	if (r->flags & REC_FIRST && !begin_write(q, r, now))
		return;
	if (last ? len != q->rsp.write.left : len >= q->rsp.write.left) {
		invalid(q, r, len, "the length is not what was announced", now);
		return;
	}
	if (last && r->flags & REC_IMM && !need_recv(q, r, now))
		return;
	if (!place(q, r, payload, len, now))
		return;
	accept(q, r, packets(q, len), now);
	if (last && r->flags & REC_IMM)
		complete(q, r, now);
}

static bool owe(struct local_qp *q, const struct rec *r, const struct owed *o,
		uint64_t now)
{
	struct local_rsp *s = &q->rsp;

	if (s->owed_n >= q->qp->attr.max_dest_rd_atomic || s->owed_n == s->owed_size) {
		invalid(q, r, r->len,
			"more READs and atomics than "
			"max_dest_rd_atomic",
			now);
		return false;
	}
	s->owed[(s->owed_head + s->owed_n++) % s->owed_size] = *o;
	return true;
}

static void do_read(struct local_qp *q, const struct rec *r, uint64_t now)
{
	struct owed o = {
		.psn = q->rsp.epsn, .va = r->va, .rkey = r->rkey, .len = r->len
	};
	uint8_t *host;

	if (!qp_allows(q, r, IBV_ACCESS_REMOTE_READ, now))
		return;
	if (r->len > MAX_DMA) {
		invalid(q, r, r->len, "longer than 2^31 bytes", now);
		return;
	}
	if (r->len > 0 &&
	    !lrsp_region_ok(q, r->rkey, r->va, r->len, IBV_ACCESS_REMOTE_READ, &host)) {
		access_error(q, r, now);
		return;
	}
	if (owe(q, r, &o, now))
		accept(q, r, packets(q, r->len), now);
}

static void do_atomic(struct local_qp *q, const struct rec *r, uint64_t now)
{
	struct owed o = { .psn = q->rsp.epsn, .atomic = true };
	struct core *core = q->qp->core;
	uint8_t *host;
	int rc;

	if (!qp_allows(q, r, IBV_ACCESS_REMOTE_ATOMIC, now))
		return;
	if (r->va & 7) { /* 9.4.5 */
		invalid(q, r, 8, "not aligned to 8 bytes", now);
		return;
	}
	if (!lrsp_region_ok(q, r->rkey, r->va, 8, IBV_ACCESS_REMOTE_ATOMIC, &host)) {
		access_error(q, r, now);
		return;
	}
	if ((uintptr_t)host & 7) { /* an iova that is skewed */
		invalid(q, r, 8, "not aligned to 8 bytes in memory", now);
		return;
	}
	if (q->rsp.owed_n >= q->qp->attr.max_dest_rd_atomic) {
		owe(q, r, &o, now); /* before it is executed */
		return;
	}
	rc = r->op == REC_FETCH_ADD
		     ? mr_fetch_add(core, r->rkey, (uint64_t *)(void *)host, r->swap_add,
				    &o.orig)
		     : mr_cmp_swap(core, r->rkey, (uint64_t *)(void *)host, r->compare,
				   r->swap_add, &o.orig);
	if (rc) {
		gone(q, r, 8, now);
		return;
	}
	if (owe(q, r, &o, now))
		accept(q, r, 1, now);
}

/* --- in ------------------------------------------------------------------ */

/* Does r begin a message where one may begin, or go on with the one under way? */
static bool in_place(const struct local_qp *q, const struct rec *r)
{
	return r->flags & REC_FIRST ? q->rsp.op == 0 : q->rsp.op == r->op;
}

static void execute(struct local_qp *q, const struct rec *r, const uint8_t *payload,
		    uint32_t len, uint64_t now)
{
	bool data = r->op == REC_SEND || r->op == REC_WRITE;

	if (!in_place(q, r) || (!data && (len || !(r->flags & REC_LAST))) ||
	    (data && !(r->flags & REC_LAST) && (len == 0 || len % q->mtu))) {
		invalid(q, r, len, "out of place in its message", now);
		return;
	}
	switch ((enum rec_op)r->op) {
	case REC_SEND:
		do_send(q, r, payload, len, now);
		return;
	case REC_WRITE:
		do_write(q, r, payload, len, now);
		return;
	case REC_READ:
		do_read(q, r, now);
		return;
	case REC_CMP_SWAP:
	case REC_FETCH_ADD:
		do_atomic(q, r, now);
		return;
	case REC_PAD:
	case REC_ACK:
	case REC_NAK:
	case REC_READ_RESP:
	case REC_ATOMIC_RESP:
	case REC_DGRAM:
	case REC_OPS:
		return;
	}
}

/* UC, 9.8.2: a gap ends the message under way; the next that begins is taken. */
static void uc_request(struct local_qp *q, const struct rec *r, const uint8_t *payload,
		       uint32_t len, uint64_t now)
{
	struct local_rsp *s = &q->rsp;

	if (r->op != REC_SEND && r->op != REC_WRITE)
		return;
	if ((r->psn != s->epsn || !in_place(q, r)) && s->op)
		drop(q, r, "the one before it has no end", now);
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
