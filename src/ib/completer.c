/* SPDX-License-Identifier: BSD-2-Clause */
/* completer.c - the packets that answer a requester: ACKs, NAKs, READ responses and the
 * results of atomics (IBTA vol. 1, 9.7.5, 9.9.2). */
#include "ib/hang.h"
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "sys/log.h"
#include "verbs/due.h"
#include "wire/aeth.h"

/* The peer has answered a later request, so the response to the oldest READ or atomic is
 * lost (9.7.5.1.2, C9-103).  It is requested again once; if that is lost too, the probe
 * timer requests it. */
static void implied_nak(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct ib_req *r = &q->req;

	if (r->implied || r->nak || r->at.psn == r->s.una)
		return;
	if (!req_retry(q, VERR_SEQUENCE_RETRIES, now))
		return;
	cc_cut(q->host, now);
	req_rewind(q, r->s.una);
	r->implied = true;
}

static void sequence_nak(struct ib_qp *q, bool progressed, uint64_t now)
	REQUIRES(q->qp->lock)
{
	struct ib_req *r = &q->req;

	if (r->at.psn == r->s.una) /* everything is being sent again already */
		return;
	if (!progressed && !req_retry(q, VERR_SEQUENCE_RETRIES, now))
		return;
	cc_cut(q->host, now);
	req_rewind(q, r->s.una);
	r->at.burst = NO_BURST; /* the peer answers: no need to hold back */
}

static void rnr_nak(struct ib_qp *q, unsigned timer, uint64_t now) REQUIRES(q->qp->lock)
{
	struct ib_req *r = &q->req;

	count(q, IB_RX_RNR);
	hang_heard(q);
	if (r->at.psn == r->s.una) /* already waiting for the RNR timer */
		return;
	if (!send_rnr_retry(q->qp, &r->s)) {
		req_fail(q, IBV_WC_RNR_RETRY_EXC_ERR, VERR_RNR_RETRIES, now);
		return;
	}
	hang_rnr(q, now);
	req_rewind(q, r->s.una);
	r->at.burst = NO_BURST;
	r->s.rnr_until = now + rnr_timer_ns(timer);
}

static void nak(struct ib_qp *q, unsigned code, bool progressed, uint64_t now)
	REQUIRES(q->qp->lock)
{
	enum nak_code c = (enum nak_code)code;

	count(q, IB_RX_NAK);
	hang_heard(q);
	switch (c) {
	case NAK_PSN_SEQUENCE:
		sequence_nak(q, progressed, now);
		return;
	case NAK_INVALID_REQUEST:
		req_fail(q, IBV_WC_REM_INV_REQ_ERR, VERR_REMOTE_INVALID, now);
		return;
	case NAK_REMOTE_ACCESS:
		req_fail(q, IBV_WC_REM_ACCESS_ERR, VERR_REMOTE_ACCESS, now);
		return;
	case NAK_REMOTE_OPERATIONAL:
		req_fail(q, IBV_WC_REM_OP_ERR, VERR_REMOTE_OPERATION, now);
		return;
	case NAK_INVALID_RD_REQUEST:
	case NAK_CODES:
		return;
	}
}

static bool alive(const struct ib_qp *q)
{
	return q->qp->state == IBV_QPS_RTS || q->qp->state == IBV_QPS_SQD;
}

/* Does the peer's QP go to ERR with this, and answer no request again? */
static bool is_final(uint8_t syndrome)
{
	return aeth_type(syndrome) == AETH_NAK &&
	       aeth_value(syndrome) >= NAK_INVALID_REQUEST &&
	       aeth_value(syndrome) <= NAK_REMOTE_OPERATIONAL;
}

static void acknowledge(struct ib_qp *q, uint32_t psn, uint8_t syndrome, uint64_t now)
	REQUIRES(q->qp->lock)
{
	enum aeth_type type = aeth_type(syndrome);
	uint32_t una = q->req.s.una;
	bool all;

	if (!aeth_valid(syndrome))
		return;
	/* A NAK is about psn, so it acknowledges what is before (C9-110). */
	all = req_advance(q, type == AETH_ACK ? psn_add(psn, 1) : psn, now);
	if (!alive(q))
		return;
	if (!all) {
		if (is_final(syndrome)) { /* it may have overtaken responses */
			q->req.nak = syndrome;
			q->req.nak_psn = psn;
		} else {
			implied_nak(q, now);
		}
		return;
	}
	switch (type) {
	case AETH_ACK:
		/* The last retry is not given back here: progress() gives it back. */
		return;
	case AETH_RNR_NAK:
		rnr_nak(q, aeth_value(syndrome), now);
		return;
	case AETH_NAK:
		nak(q, aeth_value(syndrome), q->req.s.una != una, now);
		return;
	case AETH_RESERVED:
		return;
	}
}

static void bad_response(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock)
{
	log_info("QP 0x%06x: %s, PSN %u, %zu bytes: this response does not "
		 "answer the request",
		 q->qp->qpn, pkt->op->name, pkt->f.psn, pkt->payload_len);
	req_fail(q, IBV_WC_BAD_RESP_ERR, VERR_BAD_RESPONSE, now);
}

/* Is pkt packet i of the response to w?  A READ that was requested again may have been
 * cut into other requests, so the place (first, middle, last) of its packets is not
 * checked. */
static bool fits_request(const struct ib_qp *q, const struct swqe *w, uint32_t i,
			 const struct ib_pkt *pkt)
{
	const struct ib_req *r = &q->req;
	uint32_t psn = psn_add(w->psn, i), at = r->s.answered % RD_MAX;
	bool last = i + 1 == w->npkts;

	if (pkt->payload_len != (last ? w->length - i * q->mtu : q->mtu))
		return false;
	if (r->s.answered == r->at.reads || !r->rd[at].fresh)
		return true;
	return pkt->op->place ==
	       ib_place(psn != r->rd[at].psn, psn_add(psn, 1) == r->rd[at].end);
}

static void placed(struct ib_qp *q, struct swqe *w, int rc, uint32_t psn, uint64_t now)
	REQUIRES(q->qp->lock)
{
	if (rc) {
		req_fail(q, IBV_WC_LOC_PROT_ERR, verr_of(rc), now);
		return;
	}
	w->done++;
	req_advance(q, psn_add(psn, 1), now);
}

static void read_response(struct ib_qp *q, const struct ib_pkt *pkt, uint32_t psn,
			  uint64_t now) REQUIRES(q->qp->lock)
{
	struct qp *qp = q->qp;
	uint32_t tail = qp->sq.tail, i;
	struct swqe *w = sq_at(&qp->sq, tail);

	i = psn_off(psn, w->psn);
	if (wqe_has_empty_answer(w) && pkt->op->place == IB_ONLY &&
	    pkt->payload_len == 0) { /* A19: as to a READ of 0 bytes */
		placed(q, w, 0, psn, now);
		return;
	}
	if (w->opcode != IBV_WR_RDMA_READ || !fits_request(q, w, i, pkt)) {
		bad_response(q, pkt, now);
		return;
	}
	placed(q, w,
	       scatter(qp, qp->pd, sq_sges(&qp->sq, tail), w->num_sge,
		       (uint64_t)i * q->mtu, pkt->payload, (uint32_t)pkt->payload_len),
	       psn, now);
}

static void atomic_response(struct ib_qp *q, const struct ib_pkt *pkt, uint32_t psn,
			    uint64_t now) REQUIRES(q->qp->lock)
{
	uint64_t orig = pkt->f.orig;
	struct qp *qp = q->qp;
	uint32_t tail = qp->sq.tail;
	struct swqe *w = sq_at(&qp->sq, tail);

	if (!wqe_is_atomic(w)) {
		bad_response(q, pkt, now);
		return;
	}
	placed(q, w,
	       scatter(qp, qp->pd, sq_sges(&qp->sq, tail), w->num_sge, 0, &orig,
		       sizeof(orig)),
	       psn, now);
}

static void take_answer(struct ib_qp *q, const struct ib_pkt *pkt, uint32_t psn,
			uint64_t now) REQUIRES(q->qp->lock)
{
	bool all;

	/* Responses come in order: everything before this one is done, or its response is
	 * lost. */
	if (ib_has(pkt, IB_AETH) && aeth_type(pkt->f.syndrome) != AETH_ACK)
		return;
	all = req_advance(q, psn, now);
	if (!alive(q))
		return;
	if (!all)
		implied_nak(q, now);
	else if (pkt->op->kind == IB_READ_RESP)
		read_response(q, pkt, psn, now);
	else
		atomic_response(q, pkt, psn, now);
}

/* Ends the QP by the NAK that was kept, if all responses before it have come. */
static void kept_nak(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct ib_req *r = &q->req;

	if (psn_diff(r->s.una, r->nak_psn) > 0)
		r->nak = 0;
	else if (req_advance(q, r->nak_psn, now) && alive(q))
		nak(q, aeth_value(r->nak), true, now);
}

void rc_response(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	uint32_t psn = pkt->f.psn;
	struct ib_req *r = &q->req;

	if (!alive(q)) {
		count(q, IB_RX_STATE);
		return;
	}
	/* A ghost: no outstanding packet has this PSN. */
	if (psn_off(psn, r->s.una) >= psn_off(r->at.max_psn, r->s.una)) {
		count(q, IB_RX_STALE);
		hang_heard(q);
		return;
	}
	if (pkt->op->kind == IB_ACK)
		acknowledge(q, psn, pkt->f.syndrome, now);
	else
		take_answer(q, pkt, psn, now);
	if (alive(q) && q->req.nak)
		kept_nak(q, now);
	if (alive(q))
		req_tell_error(q, now);
	if (q->qp->sq.tail != q->qp->sq.head || q->qp->state != IBV_QPS_RTS)
		due_add(q->qp->core, q->qp);
}
