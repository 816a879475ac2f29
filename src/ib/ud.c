/* SPDX-License-Identifier: BSD-2-Clause */
/* ud.c - datagrams that come in on a UD QP (IBTA vol. 1, 9.8.3). */
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "sys/log.h"
#include "verbs/device.h"

enum { GRH = LINK_HEAD_LEN };

static void drop_datagram(struct ib_qp *q, enum refusal reason, const struct dgram *d,
			  const struct ib_pkt *pkt, const char *why)
{
	count(q, reason == REFUSED_KEY ? IB_RX_QKEY : IB_RX_UD_DROPPED);
	if (ib_tells_drop(q, reason))
		log_info("QP 0x%06x: %s from QP 0x%06x, %u bytes: %s; dropped",
			 q->qp->qpn, pkt->op->name, pkt->f.src_qp, d->len, why);
}

static enum refusal place_datagram(struct ib_qp *q, const struct link_head *head,
				   const struct ib_pkt *pkt)
{
	struct target *t = &q->rsp.target;
	enum refusal why = target_fill_recv(q->qp, t, head->bytes, GRH);

	return why ? why
		   : target_fill_recv(q->qp, t, pkt->payload, (uint32_t)pkt->payload_len);
}

static void complete_recv(struct ib_qp *q, const struct link_head *head,
			  const struct ib_pkt *pkt, uint64_t now) REQUIRES(q->qp->lock)
{
	const uint8_t path_bits = (uint8_t)((1u << device_lmc(q->qp->dev)) - 1);
	const int pkey = qp_hears(q->qp, pkt->f.pkey);
	struct cqe cqe = {
		.now = now,
		.opcode = IBV_WC_RECV,
		.flags = head->grh ? IBV_WC_GRH : 0,
		.byte_len = GRH + (uint32_t)pkt->payload_len,
		.src_qp = pkt->f.src_qp,
		.slid = head->slid,
		.sl = head->sl,
		/* the table may have changed since qp_receives() */
		.pkey_index = pkey < 0 ? 0 : (uint16_t)pkey,
		.dlid_path_bits = head->dlid_path_bits & path_bits,
	};

	if (ib_has(pkt, IB_IMMDT)) {
		cqe.flags |= IBV_WC_WITH_IMM;
		cqe.imm = pkt->f.imm;
	}
	target_complete(q->qp, &q->rsp.target, &cqe, pkt->f.se);
}

void ud_request(struct ib_qp *q, const struct dgram *d, const struct ib_pkt *pkt,
		uint64_t now)
{
	struct target *t = &q->rsp.target;
	struct link_head head;

	if (pkt->f.qkey != q->qp->attr.qkey) { /* C9-176 */
		q->qp->dev->qkey_violations++;
		drop_datagram(q, REFUSED_KEY, d, pkt,
			      "its Q_Key is another than the QP's");
		return;
	}
	if (pkt->payload_len > q->mtu) {
		drop_datagram(q, REFUSED_LENGTH, d, pkt,
			      "it is longer than the path MTU");
		return;
	}
	if (target_take_recv(q->qp, t)) {
		drop_datagram(q, REFUSED_NO_RECV, d, pkt, "no receive is posted");
		return;
	}
	if (pkt->payload_len + GRH > t->recv.length) {
		drop_datagram(q, REFUSED_RECV_SHORT, d, pkt,
			      "it is longer than the receive");
		rsp_give_up(q, now);
		return;
	}
	d->link->ops->head(d, &head);
	if (place_datagram(q, &head, pkt)) {
		target_fail_recv(q->qp, t, REFUSED_RECV_SGE, now);
		ib_fail(q, false, -1, now);
		return;
	}
	complete_recv(q, &head, pkt, now);
}
