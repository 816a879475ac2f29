/* SPDX-License-Identifier: BSD-2-Clause */
/* responder.c - requests that come in on an RC QP (IBTA vol. 1, 9.7.4). */
#include "ib/hang.h"
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "sys/log.h"
#include "verbs/due.h"
#include "verbs/event.h"
#include "verbs/exports.h"
#include "verbs/mr.h"
#include "wire/aeth.h"

/* --- answers ------------------------------------------------------------- */

void rsp_nak(struct ib_qp *q, enum refusal why, uint64_t now)
{
	struct ib_rsp *s = &q->rsp;

	s->nak = aeth_syndrome(AETH_NAK, target_nak(why));
	s->nak_psn = s->epsn;
	if (why == REFUSED_INVALIDATE) { /* class J: what came before has its ACK */
		s->nak = aeth_syndrome(AETH_ACK, AETH_NO_CREDITS);
		s->nak_psn = psn_add(s->epsn, PSN_MASK);
	}
	s->nak_due = true;
	ib_fail(q, false, target_event(why), now);
	due_add(q->qp->core, q->qp);
}

void rsp_rnr(struct ib_qp *q)
{
	struct ib_rsp *s = &q->rsp;

	s->nak = aeth_syndrome(AETH_RNR_NAK, q->qp->attr.min_rnr_timer);
	s->nak_psn = s->epsn;
	s->nak_due = true;
	s->out_of_order = true; /* the packets that follow are no gap */
	due_add(q->qp->core, q->qp);
}

static void refuse_request(struct ib_qp *q, const struct ib_pkt *pkt, enum refusal why,
			   uint64_t now) REQUIRES(q->qp->lock)
{
	char text[TARGET_WHY_LEN], from[IB_PEER_LEN];

	if (why == REFUSED_NO_RECV) {
		rnr_late(q, pkt, now);
		return;
	}
	log_info("QP 0x%06x: %s from %s, PSN %u, %zu bytes: %s", q->qp->qpn,
		 pkt->op->name, ib_peer_text(q, from), pkt->f.psn, pkt->payload_len,
		 target_why(&q->rsp.target, why, text));
	target_fail_recv(q->qp, &q->rsp.target, why, now);
	rsp_nak(q, why, now);
}

void rsp_out_of_order(struct ib_qp *q)
{
	struct ib_rsp *s = &q->rsp;

	count(q, IB_RX_OUT_OF_ORDER);
	if (s->out_of_order) { /* C9-112: one NAK for a gap */
		s->late.followed = true;
		return;
	}
	s->out_of_order = true;
	s->nak = aeth_syndrome(AETH_NAK, NAK_PSN_SEQUENCE);
	s->nak_psn = s->epsn;
	s->nak_due = true;
	due_add(q->qp->core, q->qp);
}

/* The request with the expected PSN was executed. */
void rsp_accept(struct ib_qp *q, const struct ib_pkt *pkt, uint32_t npkts)
{
	struct ib_rsp *s = &q->rsp;

	s->epsn = psn_add(s->epsn, npkts);
	s->prev = pkt->op;
	if (ib_ends(pkt->op))
		s->msn = psn_add(s->msn, 1);
	/* If the NAK for a gap has not gone out yet, the gap begins here now. */
	if (s->nak_due && s->nak == aeth_syndrome(AETH_NAK, NAK_PSN_SEQUENCE))
		s->nak_psn = s->epsn;
}

/* --- RC ------------------------------------------------------------------ */

static enum refusal rc_send(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock)
{
	enum refusal why = rsp_send(q, pkt);

	if (!why && ib_has(pkt, IB_IETH))
		why = target_invalidate(q->qp, pkt->f.inv_rkey);
	if (why)
		return why;
	rsp_accept(q, pkt, 1);
	ack_ask(q, pkt, now);
	if (ib_ends(pkt->op))
		rsp_complete(q, pkt, now);
	return ACCEPTED;
}

static enum refusal rc_write(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock)
{
	enum refusal why = rsp_write(q, pkt);

	if (why)
		return why;
	rsp_accept(q, pkt, 1);
	ack_ask(q, pkt, now);
	if (ib_has(pkt, IB_IMMDT))
		rsp_complete(q, pkt, now);
	return ACCEPTED;
}

/* *dropped: duplicates fill the list.  That is not the peer's fault, so the request is
 * dropped without a NAK and comes again. */
enum refusal rsp_make_room(struct ib_qp *q, bool *dropped)
{
	*dropped = false;
	if (rsp_pending(&q->rsp) >= q->qp->attr.max_dest_rd_atomic)
		return REFUSED_TOO_MANY;
	*dropped = q->rsp.resources == RD_MAX;
	if (*dropped)
		count(q, IB_RX_STALE);
	return ACCEPTED;
}

static enum refusal rc_read(struct ib_qp *q, const struct ib_pkt *pkt)
	REQUIRES(q->qp->lock)
{
	struct resource r = {
		.psn = q->rsp.epsn,
		.va = pkt->f.va,
		.rkey = pkt->f.rkey,
		.len = pkt->f.dma_len,
		.msn = psn_add(q->rsp.msn, 1),
		.srqn = q->rsp.srqn,
	};
	enum refusal why;
	bool dropped;

	why = rsp_check_read(q, pkt);
	if (why)
		return why;
	why = rsp_make_room(q, &dropped);
	if (why || dropped)
		return why;
	r.npkts = rsp_npkts(q, pkt);
	rsp_add_pending(q, &r);
	rsp_accept(q, pkt, r.npkts);
	return ACCEPTED;
}

static enum refusal rc_atomic(struct ib_qp *q, const struct ib_pkt *pkt)
	REQUIRES(q->qp->lock)
{
	struct resource r = {
		.psn = q->rsp.epsn,
		.npkts = 1,
		.atomic = true,
		.msn = psn_add(q->rsp.msn, 1),
	};
	enum refusal why;
	bool dropped;
	uint64_t *at;

	why = rsp_check_atomic(q, pkt, &at);
	if (why)
		return why;
	why = rsp_make_room(q, &dropped);
	if (why || dropped)
		return why;
	why = rsp_atomic(q, pkt, at, &r.orig);
	if (why)
		return why;
	rsp_save_atomic(q, r.psn, r.orig);
	rsp_add_pending(q, &r);
	rsp_accept(q, pkt, 1);
	return ACCEPTED;
}

/* Accepts a request whose answer is the response to a READ of 0 bytes. */
static void answer_empty(struct ib_qp *q, const struct ib_pkt *pkt) REQUIRES(q->qp->lock)
{
	struct resource r = {
		.psn = q->rsp.epsn,
		.npkts = 1,
		.msn = psn_add(q->rsp.msn, 1),
		.srqn = q->rsp.srqn,
	};

	rsp_add_pending(q, &r);
	rsp_accept(q, pkt, 1);
}

static enum refusal rc_atomic_write(struct ib_qp *q, const struct ib_pkt *pkt)
	REQUIRES(q->qp->lock)
{
	enum refusal why;
	bool dropped;
	uint64_t *at;

	why = rsp_check_atomic_write(q, pkt, &at);
	if (why)
		return why;
	why = rsp_make_room(q, &dropped);
	if (why || dropped)
		return why;
	why = target_atomic_write(q->qp, pkt->f.rkey, at, pkt->payload);
	if (why)
		return why;
	answer_empty(q, pkt);
	return ACCEPTED;
}

/* What came before it has been placed already. */
static enum refusal rc_flush(struct ib_qp *q, const struct ib_pkt *pkt)
	REQUIRES(q->qp->lock)
{
	enum refusal why;
	bool dropped;

	why = rsp_flush(q, pkt);
	if (why)
		return why;
	why = rsp_make_room(q, &dropped);
	if (why || dropped)
		return why;
	answer_empty(q, pkt);
	return ACCEPTED;
}

/* --- all requests --------------------------------------------------------- */

static enum refusal carry_out(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock)
{
	if (!ib_may_follow(q->rsp.prev, pkt->op))
		return REFUSED_PLACE;
	switch ((enum ib_kind)pkt->op->kind) {
	case IB_SEND:
		return rc_send(q, pkt, now);
	case IB_WRITE:
		return rc_write(q, pkt, now);
	case IB_READ:
		return rc_read(q, pkt);
	case IB_CMP_SWAP:
	case IB_FETCH_ADD:
		return rc_atomic(q, pkt);
	case IB_ATOMIC_WRITE:
		return rc_atomic_write(q, pkt);
	case IB_FLUSH:
		return rc_flush(q, pkt);
	case IB_READ_RESP:
	case IB_ATOMIC_RESP:
	case IB_ACK:
	case IB_CONGESTION:
	case IB_KINDS:
		break;
	}
	return ACCEPTED;
}

/* The expected packet has arrived: closes the gap, and withdraws an RNR NAK. */
void rsp_arrived(struct ib_rsp *s)
{
	s->healed |= s->out_of_order && !s->late.wait.until;
	s->out_of_order = false;
	if (s->nak_due && aeth_type(s->nak) == AETH_RNR_NAK)
		s->nak_due = false;
}

void rsp_expected(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	enum refusal why;

	rsp_arrived(&q->rsp);
	why = q->hooks ? q->hooks->aim(q, pkt) : ACCEPTED;
	if (!why)
		why = carry_out(q, pkt, now);
	if (__builtin_expect(q->rsp.late.wait.until != 0, 0) && why != REFUSED_NO_RECV)
		rnr_came(q, !why);
	if (why)
		refuse_request(q, pkt, why, now);
}

/* Nothing has come to q yet with the PSN that is expected first: tells the log. If the
 * first packet was lost, the peer sends from there again; but one that sends an older
 * PSN, or sends this one again, begins elsewhere. */
static void stray(struct ib_qp *q, const struct ib_pkt *pkt, bool older)
{
	struct ib_rsp *s = &q->rsp;
	char from[IB_PEER_LEN];

	if (s->prev || s->late.wait.until || s->late.refused)
		return;
	if (!older && !(s->strayed && s->stray_psn == pkt->f.psn)) {
		if (!s->strayed)
			s->stray_psn = pkt->f.psn;
		s->strayed = true;
		return;
	}
	if (ib_may_tell(q->ib, q, older ? IB_RX_DUPLICATE : IB_RX_OUT_OF_ORDER))
		log_info("QP 0x%06x: %s from %s dropped: PSN %u, and the first that is "
			 "expected is %u: the peer's sq_psn must be this QP's rq_psn",
			 q->qp->qpn, pkt->op->name, ib_peer_text(q, from), pkt->f.psn,
			 s->epsn);
}

void rc_request(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	int32_t ahead = psn_diff(pkt->f.psn, q->rsp.epsn);

	if (q->hooks && q->hooks->takes(q, pkt, now))
		return;
	if (ahead) {
		stray(q, pkt, ahead < 0);
		hang_psn(q, pkt, now);
	}
	if (ahead > 0)
		rsp_out_of_order(q);
	else if (ahead < 0)
		rsp_duplicate(q, pkt);
	else
		rsp_expected(q, pkt, now);
}

/* What a run is only taken for where it needs no answer but an ACK. */
static bool goes_smoothly(const struct ib_qp *q, const struct ib_pkt *pkt)
{
	const struct ib_rsp *s = &q->rsp;

	return pkt->f.psn == s->epsn && !s->out_of_order && !s->nak_due &&
	       q->qp->state != IBV_QPS_RTR && ib_may_follow(s->prev, pkt->op) &&
	       rsp_length_ok(q, pkt);
}

unsigned rc_write_run(struct ib_qp *q, const struct ib_pkt *pkt, const struct dgram *v,
		      unsigned n, uint64_t now)
{
	const size_t header =
		(size_t)(pkt->payload - (const uint8_t *)v->iov[0].iov_base);
	const void *payload[RUN_MAX];
	struct ib_rsp *s = &q->rsp;

	if (!goes_smoothly(q, pkt))
		return 0;
	for (unsigned i = 0; i < n; i++)
		payload[i] = (const uint8_t *)v[i].iov[0].iov_base + header;
	n = target_write_all(q->qp, &s->target, payload, n, (uint32_t)pkt->payload_len);
	if (n == 0)
		return 0;
	s->epsn = psn_add(s->epsn, n);
	s->prev = pkt->op;
	ack_ask(q, pkt, now);
	return n;
}

void rc_reserved(struct ib_qp *q, const struct bth *bth, uint64_t now)
{
	char from[IB_PEER_LEN];

	if (get_be24(bth->psn) != q->rsp.epsn)
		return;
	log_info("QP 0x%06x: packet from %s, PSN %u: opcode 0x%02x is reserved",
		 q->qp->qpn, ib_peer_text(q, from), q->rsp.epsn, bth->opcode);
	target_fail_recv(q->qp, &q->rsp.target, REFUSED_PLACE, now);
	rsp_nak(q, REFUSED_PLACE, now);
}
