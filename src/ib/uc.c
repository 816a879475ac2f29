/* SPDX-License-Identifier: BSD-2-Clause */
/* uc.c - requests that come in on a UC QP (IBTA vol. 1, 9.8.2).  None is answered; a
 * message that is not whole is dropped, and its receive serves the next one. */
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "sys/log.h"
#include "verbs/mr.h"

/* Drops the message.  An error of the receive itself (REFUSED_RECV_SGE) also fails the
 * QP. */
static void drop_request(struct ib_qp *q, const struct ib_pkt *pkt, enum refusal why,
			 uint64_t now) REQUIRES(q->qp->lock)
{
	char text[TARGET_WHY_LEN], from[IB_PEER_LEN];

	/* Of REFUSED_PLACE, the first packet that was dropped has told. */
	if (why != REFUSED_PLACE && ib_tells_drop(q, why))
		log_info("QP 0x%06x: %s from %s, PSN %u, %zu bytes: %s; dropped",
			 q->qp->qpn, pkt->op->name, ib_peer_text(q, from), pkt->f.psn,
			 pkt->payload_len, target_why(&q->rsp.target, why, text));
	count(q, IB_RX_UC_DROPPED);
	if (why == REFUSED_RECV_SGE) {
		target_fail_recv(q->qp, &q->rsp.target, why, now);
		ib_fail(q, false, -1, now);
	}
	rsp_give_up(q, now);
}

void uc_request(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	bool begins = ib_begins(pkt->op);
	uint32_t psn = pkt->f.psn;
	struct ib_rsp *s = &q->rsp;
	enum refusal why = REFUSED_PLACE;

	if (begins || (psn == s->epsn && ib_may_follow(s->prev, pkt->op)))
		why = rsp_message(q, pkt, now);
	s->epsn = psn_add(psn, 1);
	s->prev = why ? NULL : pkt->op;
	if (why)
		drop_request(q, pkt, why, now);
}
