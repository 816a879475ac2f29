/* SPDX-License-Identifier: BSD-2-Clause */
/* hang.c - see hang.h. */
#include "ib/hang.h"

#include "ib/ib.h"
#include "ib/ib_qp.h"

void hang_rnr(struct ib_qp *q, uint64_t now)
{
	const struct qp *qp = q->qp;
	struct ib_req *r = &q->req;
	char to[IB_PEER_LEN];

	qp_is_held(qp);
	if (hang_seen(&r->rnr, r->s.una, now))
		hang_tell_rnr(qp, r->s.una, ib_peer_text(q, to));
}

/* Where the timeout is long enough, or there is none, this comes before the failure.  A
 * peer that has answered before may be busy with the READs of others: then retry_cnt ends
 * the silence, if there is a timeout. */
void hang_silent(struct ib_qp *q, uint64_t now)
{
	struct qp *qp = q->qp;
	struct ib_req *r = &q->req;
	char to[IB_PEER_LEN];

	qp_is_held(qp);
	if (r->s.una != (qp->attr.sq_psn & PSN_MASK) && ack_timeout_ns(qp))
		return;
	if (hang_seen(&r->silent, r->s.una, now))
		hang_tell_silence(qp, r->s.una, ib_peer_text(q, to));
}

void hang_heard(struct ib_qp *q)
{
	q->req.silent.n = 0;
}

void hang_no_recv(struct ib_qp *q, uint64_t now)
{
	char from[IB_PEER_LEN];

	if (hang_seen(&q->rsp.no_recv, q->rsp.epsn, now))
		hang_tell_no_recv(q->qp, q->rsp.epsn, ib_peer_text(q, from));
}

void hang_psn(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	const struct ib_rsp *s = &q->rsp;
	char from[IB_PEER_LEN];

	/* A PSN that was agreed on wrongly shows before the first packet is taken; later
	 * ones are lost packets and duplicates.  Behind a message that waits for its
	 * receive there are packets, too. */
	if (s->prev || s->late.wait.until ||
	    (s->late.refused && s->late.refused_psn == s->epsn))
		return;
	if (hang_seen(&q->rsp.astray, s->epsn, now))
		hang_tell_number(q->qp, s->epsn, pkt->f.psn, ib_peer_text(q, from));
}

/* Datagrams are lost without harm, and their senders often outlive a peer. What is for a
 * process that has ended may come to another one. */
bool hang_dropped(struct ib *ib, const struct ib_pkt *pkt, uint64_t now)
{
	const uint32_t qpn = pkt->f.dest_qp;

	return ib_service(pkt->f.opcode) != IB_UD && qpn_slot(qpn) == ib->core->slot &&
	       hang_seen(&ib->drops[qpn % HANG_DROPS], qpn, now);
}
