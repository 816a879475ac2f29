/* SPDX-License-Identifier: BSD-2-Clause */
/* ud.c - datagrams that come in on a UD QP (IBTA vol. 1, 9.8.3). */
#include "core/device.h"
#include "ib/ib_qp.h"
#include "sys/log.h"
#include "wire/grh.h"

enum { GRH = sizeof(struct grh) };

static void drop(struct ib_qp *q, enum ib_counter c, const struct dgram *d,
		 const struct ib_pkt *pkt, const char *why)
{
	count(q, c);
	log_info("QP 0x%06x: %s from QP 0x%06x, %u bytes: %s; dropped", q->qp->qpn,
		 pkt->op->name, get_be24(pkt->deth->src_qp), d->len, why);
}

static enum refusal place(struct ib_qp *q, const struct dgram *d,
			  const struct ib_pkt *pkt)
{
	struct target *t = &q->rsp.target;
	enum refusal why;
	uint8_t grh[GRH];

	grh_build(grh, &(struct grh_fields){
			       .src = d->from.ip,
			       .dst = d->to.ip,
			       .tclass = d->tclass,
			       .ttl = d->ttl,
			       .ip_id = (uint16_t)(d->ip_id > 0 ? d->ip_id : 0),
			       .udp_len = d->len + TRAILER_LEN,
		       });
	why = target_fill_recv(q->qp, t, grh, GRH);
	return why ? why
		   : target_fill_recv(q->qp, t, pkt->payload, (uint32_t)pkt->payload_len);
}

/* A17.4.5.1: the completion says which header came with a datagram.  ibv_wc
 * has no field for it; UCX looks where ConnectX puts it, in sl: bit 3 means
 * UDP, bits 2-0 the layer 3 header. */
enum { SL_UDP = 8, SL_IPV6 = 1, SL_IPV4 = 2 };

static void complete(struct ib_qp *q, const struct dgram *d, const struct ib_pkt *pkt,
		     uint64_t now)
{
	struct cqe cqe = {
		.now = now,
		.opcode = IBV_WC_RECV,
		.flags = IBV_WC_GRH,
		.byte_len = GRH + (uint32_t)pkt->payload_len,
		.src_qp = get_be24(pkt->deth->src_qp),
		.sl = SL_UDP | (addr_is_v4(d->to.ip) ? SL_IPV4 : SL_IPV6),
	};

	if (pkt->immdt) {
		cqe.flags |= IBV_WC_WITH_IMM;
		memcpy(&cqe.imm, pkt->immdt, sizeof(cqe.imm));
	}
	target_complete(q->qp, &q->rsp.target, &cqe, bth_solicited(pkt->bth));
}

void ud_request(struct ib_qp *q, const struct dgram *d, const struct ib_pkt *pkt,
		uint64_t now)
{
	struct target *t = &q->rsp.target;

	if (get_be32(pkt->deth->qkey) != q->qp->attr.qkey) { /* C9-176 */
		q->qp->dev->qkey_violations++;
		drop(q, IB_RX_QKEY, d, pkt, "another Q_Key");
		return;
	}
	if (pkt->payload_len > q->mtu) {
		drop(q, IB_RX_UD_DROPPED, d, pkt, "longer than the MTU");
		return;
	}
	if (target_take_recv(q->qp, t)) {
		drop(q, IB_RX_UD_DROPPED, d, pkt, "no receive is posted");
		return;
	}
	if (pkt->payload_len + GRH > t->recv.length) {
		drop(q, IB_RX_UD_DROPPED, d, pkt, "longer than the receive");
		rsp_give_up(q, now);
		return;
	}
	if (place(q, d, pkt)) {
		target_fail_recv(q->qp, t, REFUSED_RECV_SGE, now);
		ib_fail(q, false, -1, now);
		return;
	}
	complete(q, d, pkt, now);
}
