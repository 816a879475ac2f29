/* SPDX-License-Identifier: BSD-2-Clause */
/* qp_kind.c - see qp_kind.h. */
#include "verbs/qp_kind.h"

#include <stddef.h>

static const struct qp_kind unknown = { .name = "?", .has = QP_HAS_ALL };

static const struct qp_kind rc = {
	.name = "RC",
	.reliable = true,
	.connected = true,
	.has = QP_HAS_ALL,
};

static const struct qp_kind uc = {
	.name = "UC",
	.connected = true,
	.has = QP_HAS_ALL,
};

static const struct qp_kind raw_packet = {
	.name = "RAW_PACKET",
	.has = QP_HAS_ALL,
	.flags = IBV_QP_CREATE_SCATTER_FCS | IBV_QP_CREATE_CVLAN_STRIPPING,
};

static const struct qp_kind *const kinds[] = {
	[IBV_QPT_RC] = &rc,
	[IBV_QPT_UC] = &uc,
	[IBV_QPT_UD] = &qp_kind_ud,
	[IBV_QPT_RAW_PACKET] = &raw_packet,
	[IBV_QPT_XRC_SEND] = &qp_kind_xrc_send,
	[IBV_QPT_XRC_RECV] = &qp_kind_xrc_recv,
};

const struct qp_kind *qp_kind_of(enum ibv_qp_type type)
{
	return (size_t)type < sizeof(kinds) / sizeof(kinds[0]) && kinds[type]
		       ? kinds[type]
		       : &unknown;
}

struct ibv_qp_init_attr_ex qp_proper_attr(const struct ibv_qp_init_attr_ex *attr)
{
	const struct qp_kind *kind = qp_kind_of(attr->qp_type);
	struct ibv_qp_init_attr_ex a = *attr;

	if (!(kind->has & QP_HAS_PD) || !(a.comp_mask & IBV_QP_INIT_ATTR_PD))
		a.pd = NULL;
	if (!(kind->attrs & a.comp_mask & IBV_QP_INIT_ATTR_XRCD))
		a.xrcd = NULL;
	if (!(kind->has & QP_SENDS)) {
		a.send_cq = NULL;
		a.cap = (struct ibv_qp_cap){ 0 };
	}
	if (!(kind->has & QP_RECEIVES)) {
		a.recv_cq = NULL;
		a.srq = NULL;
		a.cap.max_recv_wr = a.cap.max_recv_sge = 0;
	}
	return a;
}

const char *qp_attr_lacks(const struct ibv_qp_init_attr_ex *a)
{
	const struct qp_kind *kind = qp_kind_of(a->qp_type);

	if (kind->attrs & IBV_QP_INIT_ATTR_XRCD && !a->xrcd)
		return "an XRC domain";
	if ((kind->has & QP_HAS_PD && !a->pd) || (kind->has & QP_SENDS && !a->send_cq) ||
	    (kind->has & QP_RECEIVES && !a->recv_cq))
		return "a PD or CQ";
	return NULL;
}
