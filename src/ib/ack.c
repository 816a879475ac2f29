/* SPDX-License-Identifier: BSD-2-Clause */
/* ack.c - when a responder acknowledges, and how (IBTA vol. 1, 9.7.5.1).
 *
 * One ACK stands for all before it, so it goes out when the turn that asked for
 * it ends.  Where a program has answered nearly all of the last messages
 * promptly, as in a ping-pong, it waits for the answer: both then leave in one
 * system call and wake the peer once.  If no answer comes in time the ACK goes
 * alone.
 *
 * It goes before the answer, since programs that get one may count on their own
 * request being complete.  But the kernel cuts a buffer into equal pieces of
 * which only the last may be shorter, so both are one packet on their way
 * through it only if the ACK goes last.  Another of our kind takes such an ACK
 * first all the same (rx.c).  Who sends none, after a few were tried, is taken
 * for a NIC of another kind and gets no more.
 */
#include "core/core.h"
#include "core/due.h"
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "wire/aeth.h"

enum {
	TRIES = 4,
	ACK_BYTES = 20,
	WRITE_BYTES = 32,
	SEND_BYTES = 16, /* with ICRC */
};

void ack_reset(struct ib_qp *q)
{
	q->rsp.ack = (struct ib_ack){ 0 };
}

/* The end of a gap is acknowledged unasked: until it is, rdma_rxe sends again
 * for no second NAK, but waits for its timeout. */
void ack_ask(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	struct ib_ack *a = &q->rsp.ack;

	if (q->qp->lane || (!pkt->f.ackreq && !q->rsp.healed)) /* lane_tell() */
		return;
	a->due = true;
	a->wait_until = 0;
	if (ib_ends(pkt->op) && answers_ask(&a->answers, now) && !q->rsp.healed)
		a->wait_until = now + ANSWER_WAIT_NS;
	due_add(q->qp->core, q->qp);
}

void ack_answered(struct ib_qp *q, uint64_t now)
{
	answers_came(&q->rsp.ack.answers, now);
}

uint64_t ack_deadline(const struct ib_qp *q, uint64_t now)
{
	const struct ib_ack *a = &q->rsp.ack;

	return a->due && a->wait_until > now ? a->wait_until : NEVER;
}

static int acknowledge(struct ib_qp *q, struct batch *b, const struct plan *plan,
		       uint8_t syndrome)
{
	struct emit e = {
		.f = { .psn = plan->psn,
		       .dest_qp = q->qp->attr.dest_qp_num,
		       .opcode = ib_opcode(q->service, IB_ACK, IB_ONLY, IB_NONE),
		       .syndrome = syndrome,
		       .msn = q->rsp.msn },
		.path = &q->qp->path,
	};

	return emit_planned(q, b, &e, plan);
}

void ack_sent(struct ib_qp *q, const struct plan *p)
{
	struct ib_rsp *s = &q->rsp;

	s->ack.due = false; /* a NAK acknowledges too */
	if (p->kind == PLAN_ACK) {
		s->healed = false;
		s->ack.tried += p->belated && !s->ack.understood;
		return;
	}
	s->nak_due = false;
	count(q, aeth_type(s->nak) == AETH_RNR_NAK ? IB_TX_RNR : IB_TX_NAK);
}

int ack_output(struct ib_qp *q, struct batch *b, bool answer, bool belated, uint64_t now)
{
	const struct ib_rsp *s = &q->rsp;
	struct plan ack = { .kind = PLAN_ACK,
			    .psn = psn_add(s->epsn, PSN_MASK),
			    .belated = belated };
	struct plan nak = { .kind = PLAN_NAK, .psn = s->nak_psn };
	int rc = 0;

	if (relay_waits(q)) /* an answer comes first */
		return 0;
	if (s->ack.due && (!answer || q->qp->lane) && !s->nak_due &&
	    !q->qp->core->hurry && now < s->ack.wait_until)
		return 0;
	if (s->ack.due && (s->healed || !s->nak_due))
		rc = acknowledge(q, b, &ack, aeth_syndrome(AETH_ACK, AETH_NO_CREDITS));
	if (!rc && s->nak_due)
		rc = acknowledge(q, b, &nak, s->nak);
	return rc;
}

/* One packet, the first of the batch, and not shorter than the ACK: then they
 * are a run. */
bool ack_goes_last(const struct ib_qp *q, const struct batch *b)
{
	const struct swqe *w = sq_at(&q->qp->sq, q->req.at.cur);
	const struct ib_ack *a = &q->rsp.ack;
	bool write = w->opcode == IBV_WR_RDMA_WRITE;
	uint32_t bytes = w->length + (write ? WRITE_BYTES : SEND_BYTES);

	if (!a->due || !a->wait_until || q->rsp.nak_due || q->rsp.healed ||
	    q->qp->path.link->run_max < 2 || b->n > 0 ||
	    q->req.at.cur != q->req.at.fresh || q->qp->sq.head - q->req.at.cur != 1 ||
	    w->length > q->mtu || bytes < ACK_BYTES ||
	    (!write && w->opcode != IBV_WR_SEND))
		return false;
	return a->understood || a->tried < TRIES;
}
