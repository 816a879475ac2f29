/* SPDX-License-Identifier: BSD-2-Clause */
/* uc.c - requests that come in on a UC QP (IBTA vol. 1, 9.8.2): no answers; a
 * message that is not whole is dropped, and its receive serves the next. */
#include "core/mr.h"
#include "ib/ib_qp.h"
#include "sys/log.h"

static bool ends(const struct ib_pkt *pkt)
{
	return pkt->op->place == IB_LAST || pkt->op->place == IB_ONLY;
}

static bool drop(const struct ib_qp *q, const struct ib_pkt *pkt, const char *why)
{
	log_info("QP 0x%06x: %s from QP 0x%06x, PSN %u, %zu bytes: %s; dropped",
		 q->qp->qpn, pkt->op->name, q->qp->attr.dest_qp_num,
		 get_be24(pkt->bth->psn), pkt->payload_len, why);
	return false;
}

/* Each step: false drops the message. */
static bool uc_send(struct ib_qp *q, const struct ib_pkt *pkt, bool begins, uint64_t now)
{
	struct ib_rsp *s = &q->rsp;
	int rc;

	if (begins && !rsp_take_recv(q))
		return drop(q, pkt, "no receive is posted");
	if (pkt->payload_len > s->recv.length - s->filled)
		return drop(q, pkt, "longer than the receive that is posted");
	rc = scatter(q->qp, rsp_pd(q), s->recv.sge, s->recv.num_sge, s->filled,
		     pkt->payload, (uint32_t)pkt->payload_len);
	if (rc) {
		rsp_complete_error(q, IBV_WC_LOC_PROT_ERR, verr_of(rc), now);
		ib_fail(q, false, -1, now);
		return false;
	}
	s->filled += pkt->payload_len;
	if (ends(pkt))
		rsp_complete(q, pkt, now);
	return true;
}

static bool begin_write(struct ib_qp *q, const struct ib_pkt *pkt)
{
	struct ib_rsp *s = &q->rsp;
	uint8_t *host;

	s->write.va = get_be64(pkt->reth->va);
	s->write.rkey = get_be32(pkt->reth->rkey);
	s->write.len = s->write.left = get_be32(pkt->reth->len);
	if (!(q->qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		return drop(q, pkt, "not among the QP's qp_access_flags");
	if (s->write.len > IB_MAX_DMA)
		return drop(q, pkt, "longer than 2^31 bytes");
	return s->write.len == 0 || rsp_check(q, s->write.rkey, s->write.va, s->write.len,
					      IBV_ACCESS_REMOTE_WRITE, &host) == MR_OK;
}

static bool uc_write(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	struct ib_rsp *s = &q->rsp;
	uint32_t n = (uint32_t)pkt->payload_len;
	uint8_t *host;

	if (pkt->reth && !begin_write(q, pkt))
		return false;
	if (ends(pkt) ? n != s->write.left : n >= s->write.left)
		return drop(q, pkt, "the length is not what the RETH says");
	if (pkt->immdt && !rsp_take_recv(q))
		return drop(q, pkt, "no receive is posted");
	if (n > 0 && rsp_check(q, s->write.rkey, s->write.va, n, IBV_ACCESS_REMOTE_WRITE,
			       &host) != MR_OK)
		return false;
	if (n > 0 && mr_write(q->qp->core, s->write.rkey, host, pkt->payload, n) != 0)
		return drop(q, pkt, "the region's memory is not mapped");
	s->write.va += n;
	s->write.left -= n;
	if (pkt->immdt)
		rsp_complete(q, pkt, now);
	return true;
}

void uc_request(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	bool begins = pkt->op->place == IB_FIRST || pkt->op->place == IB_ONLY;
	uint32_t psn = get_be24(pkt->bth->psn);
	struct ib_rsp *s = &q->rsp;
	bool whole;

	whole = begins || (psn == s->epsn && ib_may_follow(s->prev, pkt->op));
	s->epsn = psn_add(psn, 1);
	if (whole && rsp_length_ok(q, pkt))
		whole = pkt->op->kind == IB_SEND ? uc_send(q, pkt, begins, now)
						 : uc_write(q, pkt, now);
	else
		whole = false;
	s->prev = whole ? pkt->op : NULL;
	if (whole)
		return;
	count(q, IB_RX_UC_DROPPED);
	rsp_give_up(q, now);
}
