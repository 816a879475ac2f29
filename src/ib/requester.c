/* SPDX-License-Identifier: BSD-2-Clause */
/* requester.c - work requests become packets (IBTA vol. 1, 9.7.3, 10.8.3).
 *
 * One cursor walks over the send queue; what is before it has been sent, and
 * to send again is to move it back (retry.c).  UC and UD use the same cursor
 * without ever looking back.
 */
#include "core/device.h"
#include "core/mr.h"
#include "ib/ib_qp.h"
#include "sys/log.h"

enum step {
	STEP_GO,			/* on with this work request */
	STEP_SENT,			/* a datagram went out */
	STEP_NEXT,			/* one is done without a datagram */
	STEP_WAIT,			/* nothing may be sent now */
	STEP_FULL,			/* the batch is full */
};

/* How a work request looks on the wire. */
static const struct wr {
	bool wire;
	uint8_t kind, tail;		/* enum ib_kind, ib_tail */
	uint8_t services;		/* 1 << enum ib_service */
} wrs[] = {
#define RC (1 << IB_RC)
#define UC (1 << IB_UC)
#define UD (1 << IB_UD)
	[IBV_WR_RDMA_WRITE]           = { true, IB_WRITE, IB_NONE, RC | UC },
	[IBV_WR_RDMA_WRITE_WITH_IMM]  = { true, IB_WRITE, IB_IMM, RC | UC },
	[IBV_WR_SEND]                 = { true, IB_SEND, IB_NONE, RC | UC | UD },
	[IBV_WR_SEND_WITH_IMM]        = { true, IB_SEND, IB_IMM, RC | UC | UD },
	[IBV_WR_SEND_WITH_INV]        = { true, IB_SEND, IB_INV, RC },
	[IBV_WR_RDMA_READ]            = { true, IB_READ, IB_NONE, RC },
	[IBV_WR_ATOMIC_CMP_AND_SWP]   = { true, IB_CMP_SWAP, IB_NONE, RC },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = { true, IB_FETCH_ADD, IB_NONE, RC },
	[IBV_WR_LOCAL_INV]            = { false, 0, 0, RC | UC },
	[IBV_WR_BIND_MW]              = { false, 0, 0, RC | UC },
#undef RC
#undef UC
#undef UD
};

static const struct wr *wr_of(const struct swqe *w)
{
	return w->opcode < sizeof(wrs) / sizeof(wrs[0]) &&
	       wrs[w->opcode].services ? &wrs[w->opcode] : NULL;
}

static enum ib_service service(const struct qp *qp)
{
	return qp->type == IBV_QPT_RC ? IB_RC :
	       qp->type == IBV_QPT_UC ? IB_UC : IB_UD;
}

static bool is_atomic(const struct swqe *w)
{
	return w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

bool req_is_read(const struct swqe *w)
{
	return w->opcode == IBV_WR_RDMA_READ || is_atomic(w);
}

/* A span that was resolved lasts for one output(). */
struct work { bool resolved; uint32_t index; struct span span; };

static int resolve(struct ib_qp *q, struct work *work)
{
	int rc;

	if (work->resolved && work->index == q->req.cur)
		return 0;
	rc = span_of_wqe(q->qp, q->req.cur,
			 req_is_read(sq_at(&q->qp->sq, q->req.cur)) ?
			 IBV_ACCESS_LOCAL_WRITE : 0, &work->span);
	work->resolved = rc == 0;
	work->index = q->req.cur;
	return rc;
}

/* --- a work request's first step -------------------------------------------- */

static enum step local_work(struct ib_qp *q, const struct swqe *w, uint64_t now)
{
	struct qp *qp = q->qp;
	enum ibv_wc_status st;
	enum verr verr;

	/* Its effect comes after all that was posted before it: those may
	 * have to be sent again and need their keys. */
	if (q->req.cur != qp->sq.tail)
		return STEP_WAIT;
	st = mw_work(qp, w, &verr);
	if (st != IBV_WC_SUCCESS) {
		log_info("QP 0x%06x: rkey 0x%08x: %s", qp->qpn, w->imm,
			 verr_text(verr)->what);
		req_error(q, st, verr, now);
		return STEP_WAIT;
	}
	sq_complete(qp, IBV_WC_SUCCESS, VERR_NONE, now);
	q->req.cur++;
	q->req.fresh++;
	return STEP_NEXT;
}

static enum step refuse(struct ib_qp *q, enum ibv_wc_status status,
			enum verr verr, uint64_t now)
{
	const struct swqe *w = sq_at(&q->qp->sq, q->req.cur);

	log_info("QP 0x%06x: work request 0x%llx, opcode %u, %u bytes: %s",
		 q->qp->qpn, (unsigned long long)w->wr_id, w->opcode, w->length,
		 verr_text(verr)->what);
	req_error(q, status, verr, now);
	return STEP_WAIT;
}

static uint32_t wqe_bytes(const struct swqe *w)
{
	return is_atomic(w) ? 8 : w->length;
}

/* The cursor has come to a work request that was never begun. */
static enum step begin(struct ib_qp *q, struct swqe *w, struct work *work,
		       uint64_t now)
{
	struct ib_req *r = &q->req;
	struct qp *qp = q->qp;
	const struct wr *wr = wr_of(w);

	if (qp->state != IBV_QPS_RTS)		/* SQD: nothing new */
		return STEP_WAIT;
	/* C10-97: a fence waits for READs and atomics before it. */
	if (w->flags & IBV_SEND_FENCE && r->rd_head != r->rd_tail)
		return STEP_WAIT;
	if (!wr || !(wr->services & 1 << service(qp)) ||
	    (req_is_read(w) && qp->attr.max_rd_atomic == 0))
		return refuse(q, IBV_WC_LOC_QP_OP_ERR, VERR_LOCAL_OPERATION, now);
	if (!wr->wire)
		return local_work(q, w, now);
	if (w->length > caps.max_msg ||
	    (qp->type == IBV_QPT_UD && w->length > q->mtu) ||
	    (is_atomic(w) && w->length < 8))
		return refuse(q, IBV_WC_LOC_LEN_ERR, VERR_TOO_LONG, now);
	if (resolve(q, work) != 0)
		return refuse(q, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_KEY, now);

	w->psn = r->psn;
	w->npkts = wqe_bytes(w) ? (wqe_bytes(w) - 1) / q->mtu + 1 : 1;
	w->done = 0;
	r->fresh++;
	return STEP_GO;
}

/* --- packets ---------------------------------------------------------------- */

/* The datagram has gone out: the cursor moves on by n PSNs. */
static void moved_on(struct ib_qp *q, const struct swqe *w, uint32_t n,
		     uint32_t cost, uint64_t now)
{
	struct ib_req *r = &q->req;
	bool fresh = r->psn == r->max_psn;

	r->psn = psn_add(r->psn, n);
	if (fresh || psn_off(r->psn, r->una) > psn_off(r->max_psn, r->una))
		r->max_psn = r->psn;
	if (psn_off(r->psn, w->psn) >= w->npkts)
		r->cur++;
	if (q->qp->type != IBV_QPT_RC) {
		r->sent_at = now;
		return;
	}
	if (r->burst != NO_BURST && r->burst > 0)
		r->burst--;
	cc_sent(q, cost);
	req_arm(q, now);
	if (fresh)
		ack_answered(q, now);
}

static enum step emitted(struct ib_qp *q, int rc, uint64_t now)
{
	if (rc == -ENOBUFS)
		return STEP_FULL;
	return refuse(q, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_FAULT, now);
}

/* What a packet of w at PSN psn has in common with all others. */
static void start(const struct ib_qp *q, struct emit *e, const struct swqe *w)
{
	const struct ib_req *r = &q->req;
	const struct qp *qp = q->qp;

	*e = (struct emit){
		.f = { .psn = r->psn, .dest_qp = qp->attr.dest_qp_num,
		       .rkey = w->rkey },
		.av = &qp->av,
		.copy = r->psn != r->max_psn,
		.sent = { .kind = SENT_REQUEST, .psn = r->psn,
			  .fresh = r->psn == r->max_psn },
	};
	if (qp->type != IBV_QPT_UD)
		return;
	e->av = &w->ud.av;
	e->f.dest_qp = w->ud.qpn;
	e->f.qkey = w->ud.qkey;
	e->f.src_qp = qp->qpn;
}

/* Also where an answer is waited for, and where the window is half shut after
 * this packet: then the next may have to wait.  A peer that answers once for
 * all that it finds waiting loses nothing by being asked often. */
static bool asks_for_ack(struct ib_qp *q, bool last, uint32_t cost)
{
	struct ib_req *r = &q->req;

	if (!last && ++r->unasked < ACK_EVERY && r->burst == NO_BURST &&
	    cc_room(q) > q->host->window / 2 + cost)
		return false;
	r->unasked = 0;
	return true;
}

static enum step send_data(struct ib_qp *q, struct batch *b, struct swqe *w,
			   struct work *work, uint64_t now)
{
	const struct wr *wr = wr_of(w);
	struct ib_req *r = &q->req;
	uint32_t i = psn_off(r->psn, w->psn), cost;
	bool last = i + 1 == w->npkts, rc = q->qp->type == IBV_QPT_RC;
	struct emit e;
	int err;

	start(q, &e, w);
	e.off = i * q->mtu;
	e.len = last ? w->length - e.off : q->mtu;
	e.span = &work->span;
	e.f.opcode = ib_opcode(service(q->qp), wr->kind, ib_place(i > 0, last),
			       last ? wr->tail : IB_NONE);
	e.f.va = w->remote_addr;
	e.f.dma_len = w->length;
	e.f.imm = w->imm;
	e.f.inv_rkey = w->imm;
	e.f.se = last && w->flags & IBV_SEND_SOLICITED &&
		 (wr->kind == IB_SEND || wr->tail == IB_IMM);
	cost = e.len + CC_PACKET;
	if (rc && (psn_off(r->psn, r->una) >= PSN_WINDOW - 1 || !cc_admit(q, cost)))
		return STEP_WAIT;
	if (resolve(q, work) != 0)
		return refuse(q, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_KEY, now);
	e.f.ackreq = rc && asks_for_ack(q, last, cost);
	err = emit(q, b, &e);
	if (err)
		return emitted(q, err, now);
	if (!e.sent.fresh && rc)
		count(q, IB_TX_RETRANSMIT);
	if (e.f.ackreq && e.sent.fresh && r->rtt_at == 0) {
		r->rtt_psn = r->psn;
		r->rtt_at = now;
	}
	moved_on(q, w, 1, cost, now);
	return STEP_SENT;
}

static bool may_read(const struct ib_qp *q)
{
	const struct ib_req *r = &q->req;
	uint32_t max = q->qp->attr.max_rd_atomic;

	return r->rd_tail - r->rd_head < (max < RD_MAX ? max : RD_MAX);
}

static void note_read(struct ib_req *r, uint32_t npkts)
{
	r->rd[r->rd_tail % RD_MAX].psn = r->psn;
	r->rd[r->rd_tail % RD_MAX].end = psn_add(r->psn, npkts);
	r->rd[r->rd_tail % RD_MAX].fresh = r->psn == r->max_psn;
	r->rd_tail++;
}

/* How many packets of answer to ask for, from packet i on.  A long READ goes
 * out as several requests: so the window holds for what comes back, too.  Where
 * one ends never changes, since the peer must find what is asked for again
 * among what it was asked for before. */
static uint32_t read_chunk(const struct ib_qp *q, const struct swqe *w, uint32_t i)
{
	uint32_t n = q->read_chunk - i % q->read_chunk;

	return n < w->npkts - i ? n : w->npkts - i;
}

static enum step send_read(struct ib_qp *q, struct batch *b, struct swqe *w,
			   uint64_t now)
{
	struct ib_req *r = &q->req;
	uint32_t i = psn_off(r->psn, w->psn), off = i * q->mtu, n, len;
	struct emit e;
	int err;

	n = read_chunk(q, w, i);
	len = i + n == w->npkts ? w->length - off : n * q->mtu;
	if (!may_read(q) || psn_off(r->psn, r->una) + n > PSN_WINDOW ||
	    !cc_admit(q, len + n * CC_PACKET))
		return STEP_WAIT;
	start(q, &e, w);
	e.f.opcode = ib_opcode(IB_RC, IB_READ, IB_ONLY, IB_NONE);
	e.f.va = w->remote_addr + off;
	e.f.dma_len = len;
	e.f.ackreq = true;
	err = emit(q, b, &e);
	if (err)
		return emitted(q, err, now);
	if (!e.sent.fresh)
		count(q, IB_TX_RETRANSMIT);
	note_read(r, n);
	moved_on(q, w, n, len + n * CC_PACKET, now);
	return STEP_SENT;
}

static enum step send_atomic(struct ib_qp *q, struct batch *b, struct swqe *w,
			     uint64_t now)
{
	bool cas = w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	struct emit e;
	int err;

	if (!may_read(q) || psn_off(q->req.psn, q->req.una) >= PSN_WINDOW - 1 ||
	    !cc_admit(q, 8 + CC_PACKET))
		return STEP_WAIT;
	start(q, &e, w);
	e.f.opcode = ib_opcode(IB_RC, cas ? IB_CMP_SWAP : IB_FETCH_ADD, IB_ONLY,
			       IB_NONE);
	e.f.va = w->remote_addr;
	e.f.swap_add = cas ? w->atomic.swap : w->atomic.compare_add;
	e.f.compare = cas ? w->atomic.compare_add : 0;
	e.f.ackreq = true;
	err = emit(q, b, &e);
	if (err)
		return emitted(q, err, now);
	if (!e.sent.fresh)
		count(q, IB_TX_RETRANSMIT);
	note_read(&q->req, 1);
	moved_on(q, w, 1, 8 + CC_PACKET, now);
	return STEP_SENT;
}

static enum step step(struct ib_qp *q, struct batch *b, struct work *work,
		      uint64_t now)
{
	struct ib_req *r = &q->req;
	struct swqe *w = sq_at(&q->qp->sq, r->cur);

	if ((q->qp->state != IBV_QPS_RTS && q->qp->state != IBV_QPS_SQD) ||
	    r->cur == q->qp->sq.head || r->failed || now < r->rnr_until ||
	    (r->burst == 0 && r->psn != r->una))
		return STEP_WAIT;
	if (r->cur == r->fresh) {
		enum step s = begin(q, w, work, now);

		if (s != STEP_GO)
			return s;
	}
	if (w->opcode == IBV_WR_RDMA_READ)
		return send_read(q, b, w, now);
	if (is_atomic(w))
		return send_atomic(q, b, w, now);
	return send_data(q, b, w, work, now);
}

bool req_output(struct ib_qp *q, struct batch *b, uint64_t now)
{
	struct work work;
	unsigned left = REQ_SHARE;

	work.resolved = false;			/* the rest is large */
	cc_answer(q);
	while (left > 0) {
		switch (step(q, b, &work, now)) {
		case STEP_GO: case STEP_NEXT:
			break;
		case STEP_SENT:
			left--;
			break;
		case STEP_WAIT:
			if (q->host)
				cc_wake(q->host);
			return false;
		case STEP_FULL:
			return true;
		}
	}
	return true;
}
