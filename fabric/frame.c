/* SPDX-License-Identifier: BSD-2-Clause */
/* frame.c - writes the bytes of a packet on its link. */
#include <string.h>

#include "fabric/fabric.h"
#include "wire/grh.h"
#include "wire/ib_pkt.h"
#include "wire/icrc.h"
#include "wire/lrh.h"

enum { NEXT_IBA = 0x1b, VERSION_6 = 6 };

static size_t put_grh(uint8_t *at, const struct mad_pkt *pkt, size_t len)
{
	struct grh g = {
		.vtf = be32((uint32_t)VERSION_6 << 28 | (uint32_t)pkt->tclass << 20 |
			    (pkt->flow_label & 0xfffff)),
		.paylen = be16((uint16_t)len),
		.next = NEXT_IBA,
		.hop_limit = pkt->hop_limit,
	};

	memcpy(g.sgid, pkt->sgid, sizeof(g.sgid));
	memcpy(g.dgid, pkt->dgid, sizeof(g.dgid));
	memcpy(at, &g, sizeof(g));
	return sizeof(g);
}

size_t fabric_mad(uint8_t to[FABRIC_MAD], const struct mad_pkt *pkt)
{
	struct ib_fields f = { .opcode = ib_opcode(IB_UD, IB_SEND, IB_ONLY, IB_NONE),
			       .migreq = true,
			       .pkey = pkt->pkey,
			       .dest_qp = pkt->dqpn,
			       .qkey = pkt->qkey,
			       .src_qp = pkt->sqpn };
	size_t len = ib_build(to, &f);

	memcpy(to + len, pkt->mad, MAD_SIZE);
	return len + MAD_SIZE;
}

/* Takes the BTH from the fabric's copy, since the sender may have changed its bytes. */
static size_t put_data(uint8_t *at, const struct fabric_data *d)
{
	memcpy(at, d->bytes, d->len - ICRC_LEN);
	memcpy(at, d->bth, sizeof(d->bth));
	return d->len - ICRC_LEN;
}

size_t fabric_frame(uint8_t to[FABRIC_FRAME], uint8_t vl, const struct mad_pkt *pkt)
{
	size_t body = pkt->data ? pkt->data->len : FABRIC_MAD + ICRC_LEN;
	uint8_t *at = to + sizeof(struct lrh);

	if (pkt->grh)
		at += put_grh(at, pkt, body);
	at += pkt->data ? put_data(at, pkt->data) : fabric_mad(at, pkt);
	return lrh_close(to, (size_t)(at - to),
			 (struct lrh_fields){ .vl = vl,
					      .sl = pkt->sl & 15,
					      .grh = pkt->grh,
					      .dlid = pkt->dlid,
					      .slid = pkt->slid });
}
