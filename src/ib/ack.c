/* SPDX-License-Identifier: BSD-2-Clause */
/* ack.c - when a responder acknowledges, and how (IBTA vol. 1, 9.7.5.1).
 *
 * One ACK acknowledges all packets before it, so it goes out when the turn that asked for
 * it ends.  If the program has answered nearly all of the last messages promptly, as in a
 * ping-pong, the ACK waits for the next answer: both then leave in one system call and
 * wake the peer once.  If no answer comes in time the ACK goes alone.
 *
 * The ACK normally goes before the answer, since a program that gets the answer may count
 * on its own request being complete.  But the kernel segments a buffer into pieces of
 * equal length, of which only the last may be shorter; so ACK and answer travel as one
 * buffer only if the ACK goes last.  A peer that is urnic too takes such an ACK in first
 * all the same (rx.c).  A peer that sends no such ACKs itself, after TRIES were sent to
 * it, is taken for another kind of NIC and gets no more. */
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "verbs/core.h"
#include "verbs/due.h"
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

/* The packet that closes a gap is acknowledged even if it does not ask for it: until that
 * ACK comes, rdma_rxe does not resend for a second NAK but waits for its timeout. */
void ack_ask(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	struct ib_ack *a = &q->rsp.ack;
	bool waits;

	/* Of messages that came together only the last asks for an ACK. */
	waits = ib_ends(pkt->op) && answers_ask(&a->answers, now);
	if (!pkt->f.ackreq && !q->rsp.healed)
		return;
	a->due = true;
	a->wait_until = waits && !q->rsp.healed ? now + ANSWER_WAIT_NS : 0;
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

	s->ack.due = false; /* a NAK acknowledges what is before it, too */
	if (p->kind == PLAN_ACK) {
		s->healed = false;
		s->ack.tried += p->belated && !s->ack.understood;
		return;
	}
	s->nak_due = false;
	if (aeth_type(s->nak) != AETH_ACK)
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

	if (q->hooks && q->hooks->waits(q)) /* a READ response comes first */
		return 0;
	if (s->ack.due && !answer && !s->nak_due && !q->qp->core->round.hurry &&
	    now < s->ack.wait_until)
		return 0;
	if (s->ack.due && (s->healed || !s->nak_due))
		rc = acknowledge(q, b, &ack, aeth_syndrome(AETH_ACK, AETH_NO_CREDITS));
	if (!rc && s->nak_due)
		rc = acknowledge(q, b, &nak, s->nak);
	return rc;
}

/* The ACK and the answer can be one segmented buffer only if the answer is the QP's only
 * request, is one packet and the first of the batch, and is not shorter than the ACK. */
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
