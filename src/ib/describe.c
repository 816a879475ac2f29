/* SPDX-License-Identifier: BSD-2-Clause */
/* describe.c - a datagram in words for log lines, and a QP in words for a dump. */
#include <stdio.h>
#include <string.h>

#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "sys/addr.h"
#include "verbs/device.h"
#include "wire/ib_hdr.h"
#include "wire/ib_pkt.h"

static const char *const service[] = {
	[IB_RC] = "RC ",   [IB_UC] = "UC ", [IB_RD] = "RD ",
	[IB_UD] = "UD ",   [IB_CNP] = "", /* its one opcode has the same name */
	[IB_XRC] = "XRC ",
};

void ib_describe(const struct dgram *d, char *buf, size_t size)
{
	const struct bth *bth = d->iov[0].iov_base;
	const struct ib_op *op;
	char name[32];

	if (d->iov[0].iov_len < sizeof(*bth)) {
		snprintf(buf, size, "no BTH, %u bytes", d->len);
		return;
	}
	op = ib_op(bth->opcode);
	if (op)
		snprintf(name, sizeof(name), "%s%s", service[ib_service(bth->opcode)],
			 op->name);
	else
		snprintf(name, sizeof(name), "opcode 0x%02x", bth->opcode);
	snprintf(buf, size, "%s to QP 0x%06x, PSN %u, %u bytes", name,
		 get_be24(bth->dest_qp), get_be24(bth->psn), d->len);
}

void ib_describe_qp(const struct qp *qp, char *buf, size_t size)
{
	const struct ib_qp *q = qp->tp.state;
	const struct ib_req *r = &q->req;
	const struct ib_rsp *s = &q->rsp;

	if (qp->type == IBV_QPT_UD) {
		snprintf(buf, size, "next PSN {next_psn=%u}", r->at.psn);
		return;
	}
	snprintf(
		buf, size,
		"oldest PSN without an ACK {oldest_psn=%u}, next {next_psn=%u}, "
		"never sent {new_psn=%u}; bytes in flight {in_flight=%u}, "
		"retries left {retries=%u}, RNR {rnr_retries=%u}; "
		"window {window=%u}; "
		"expected PSN {expected_psn=%u}, MSN {msn=%u}, answers pending {answers=%u}",
		r->s.una, r->at.psn, r->at.max_psn, r->flight, r->s.retry_left,
		r->s.rnr_left, q->host ? q->host->window : 0, s->epsn, s->msn,
		s->resources);
}

const char *ib_peer_text(const struct ib_qp *q, char text[IB_PEER_LEN])
{
	const struct qp *qp = q->qp;
	const struct ibv_ah_attr *ah = &qp->attr.ah_attr;
	char gid[INET6_ADDRSTRLEN];

	addr_text(ah->grh.dgid.raw, gid);
	if (device_needs_grh(qp->dev))
		snprintf(text, IB_PEER_LEN, "QP 0x%06x at %s", qp->attr.dest_qp_num, gid);
	else if (ah->is_global)
		snprintf(text, IB_PEER_LEN, "QP 0x%06x at LID %u, GID %s",
			 qp->attr.dest_qp_num, ah->dlid, gid);
	else
		snprintf(text, IB_PEER_LEN, "QP 0x%06x at LID %u", qp->attr.dest_qp_num,
			 ah->dlid);
	return text;
}

void ib_describe_peer(const struct qp *qp, char *buf, size_t size)
{
	const struct ib_qp *q = qp->tp.state;
	char to[IB_PEER_LEN];

	snprintf(buf, size, "%s, PSN %u", ib_peer_text(q, to), q->req.s.una);
}
