/* SPDX-License-Identifier: BSD-2-Clause */
/* step.c - executes requests at their target, packet by packet.  Shared by the RC
 * responder (responder.c), UC, and stand-ins for target QPs of other processes
 * (carry.c). */
#include "ib/ib_qp.h"

void rsp_complete(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	struct target *t = &q->rsp.target;
	bool write = pkt->op->kind == IB_WRITE;
	struct cqe cqe = {
		.now = now,
		.opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		.byte_len = (uint32_t)(write ? t->write.len : t->filled),
		.src_qp = q->qp->attr.dest_qp_num,
		.sl = q->qp->path.sl,
	};

	if (ib_has(pkt, IB_IMMDT)) {
		cqe.flags = IBV_WC_WITH_IMM;
		cqe.imm = pkt->f.imm;
	} else if (ib_has(pkt, IB_IETH)) {
		cqe.flags = IBV_WC_WITH_INV;
		cqe.imm = pkt->f.inv_rkey;
	}
	target_complete(q->qp, t, &cqe, pkt->f.se);
}

void rsp_give_up(struct ib_qp *q, uint64_t now)
{
	if (q->qp->srq && q->qp->state != IBV_QPS_ERR)
		target_fail_recv(q->qp, &q->rsp.target, REFUSED_PLACE, now);
}

bool rsp_length_ok(const struct ib_qp *q, const struct ib_pkt *pkt)
{
	size_t n = pkt->payload_len;

	switch ((enum ib_place)pkt->op->place) {
	case IB_FIRST:
	case IB_MIDDLE:
		return n == q->mtu;
	case IB_LAST:
		return n > 0 && n <= q->mtu;
	case IB_ONLY:
		return n <= q->mtu;
	case IB_PLACES:
		break;
	}
	return false;
}

enum refusal rsp_send(struct ib_qp *q, const struct ib_pkt *pkt)
{
	bool begins = ib_begins(pkt->op);
	struct target *t = &q->rsp.target;
	uint32_t n = (uint32_t)pkt->payload_len, skip = 0;
	enum refusal why = ACCEPTED;

	if (!rsp_length_ok(q, pkt))
		return REFUSED_LENGTH;
	if (begins)
		why = target_begin_send(q->qp, t, pkt->payload, n,
					pkt->op->place == IB_ONLY, &skip);
	return why ? why
		   : target_fill_recv(q->qp, t, (const uint8_t *)pkt->payload + skip,
				      n - skip);
}

static bool write_length_ok(const struct ib_qp *q, const struct ib_pkt *pkt)
{
	bool last = ib_ends(pkt->op);
	uint32_t left = q->rsp.target.write.left;

	return rsp_length_ok(q, pkt) &&
	       (last ? pkt->payload_len == left : pkt->payload_len < left);
}

/* Does a receive tell of a WRITE whose R_Key is refused? One with immediate data has a
 * status for it: Local Access Error (11.6.2). On a network the first packet of a longer
 * message is refused, before anybody knows that the last one has immediate data. UC drops
 * the message (class D). */
static bool is_told_by_recv(const struct ib_qp *q, const struct ib_pkt *pkt)
{
	return q->qp->reliable && ib_has(pkt, IB_IMMDT) &&
	       pkt->f.dma_len <= q->qp->path.mtu;
}

enum refusal rsp_write(struct ib_qp *q, const struct ib_pkt *pkt)
{
	struct target *t = &q->rsp.target;
	enum refusal why = ACCEPTED;

	if (ib_has(pkt, IB_RETH))
		why = target_begin_write(q->qp, t, pkt->f.rkey, pkt->f.va,
					 pkt->f.dma_len);
	if (!why && !write_length_ok(q, pkt))
		why = REFUSED_LENGTH;
	if (!why && ib_has(pkt, IB_IMMDT))
		why = target_take_recv(q->qp, t);
	if (why == REFUSED_KEY && is_told_by_recv(q, pkt))
		target_take_recv(q->qp, t);
	return why ? why
		   : target_write(q->qp, t, pkt->payload, (uint32_t)pkt->payload_len);
}

enum refusal rsp_message(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	bool send = pkt->op->kind == IB_SEND;
	enum refusal why = send ? rsp_send(q, pkt) : rsp_write(q, pkt);

	if (!why && ib_has(pkt, IB_IETH))
		why = target_invalidate(q->qp, pkt->f.inv_rkey);
	if (!why && (send ? ib_ends(pkt->op) : ib_has(pkt, IB_IMMDT)))
		rsp_complete(q, pkt, now);
	return why;
}

/* --- READ and atomics ------------------------------------------------------ */

enum refusal rsp_check_read(struct ib_qp *q, const struct ib_pkt *pkt)
{
	uint8_t *host;

	return pkt->payload_len > 0
		       ? REFUSED_LENGTH
		       : target_check(q->qp, &q->rsp.target, pkt->f.rkey, pkt->f.va,
				      pkt->f.dma_len, IBV_ACCESS_REMOTE_READ, &host);
}

enum refusal rsp_check_atomic(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t **at)
{
	return pkt->payload_len > 0 ? REFUSED_LENGTH
				    : target_check_atomic(q->qp, &q->rsp.target,
							  pkt->f.rkey, pkt->f.va, at);
}

enum refusal rsp_atomic(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t *at,
			uint64_t *orig)
{
	return target_atomic(q->qp, pkt->f.rkey, at,
			     pkt->op->kind == IB_CMP_SWAP ? &pkt->f.compare : NULL,
			     pkt->f.swap_add, orig);
}

enum refusal rsp_check_atomic_write(struct ib_qp *q, const struct ib_pkt *pkt,
				    uint64_t **at)
{
	return pkt->payload_len != sizeof(**at) || pkt->f.dma_len != sizeof(**at)
		       ? REFUSED_LENGTH
		       : target_check_atomic_write(q->qp, &q->rsp.target, pkt->f.rkey,
						   pkt->f.va, at);
}

enum refusal rsp_flush(struct ib_qp *q, const struct ib_pkt *pkt)
{
	return pkt->payload_len > 0
		       ? REFUSED_LENGTH
		       : target_flush(q->qp, &q->rsp.target, pkt->f.rkey, pkt->f.va,
				      pkt->f.dma_len, pkt->f.flush);
}
