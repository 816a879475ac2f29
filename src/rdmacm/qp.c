/* SPDX-License-Identifier: BSD-2-Clause */
/* cma_qp.c - an id's QP: made, and taken through its states as the connection
 * comes about. */
#include <stdlib.h>
#include <string.h>

#include "abi/cma.h"

void cma_fill_ah(struct cma_id *id, const uint8_t dst[16], struct ibv_ah_attr *ah)
{
	*ah = (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = id->id.port_num,
		.grh = { .sgid_index = (uint8_t)id->sgid_index,
			 .hop_limit = 64,
			 .traffic_class = id->tos },
	};
	memcpy(ah->grh.dgid.raw, dst, 16);
}

/* --- attributes ---------------------------------------------------------- */

/* As Linux's iw_cm: the connection brings the rest. */
static int iwarp_attr(struct cma_id *id, struct ibv_qp_attr *a, int *mask)
{
	*mask = 0;
	if (a->qp_state != IBV_QPS_INIT && a->qp_state != IBV_QPS_RTR)
		return a->qp_state == IBV_QPS_RTS ? 0 : -EINVAL;
	a->port_num = id->id.port_num;
	a->qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	*mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT;
	return 0;
}

static int init_attr(struct cma_id *id, struct ibv_qp_attr *a, int *mask)
{
	a->pkey_index = 0;
	a->port_num = id->id.port_num;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (cma_is_datagram(id)) {
		a->qkey = id->qkey;
		*mask |= IBV_QP_QKEY;
		return 0;
	}
	a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->resources)
		a->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	*mask |= IBV_QP_ACCESS_FLAGS;
	return 0;
}

/* The peer is known after a request or a response only. */
static int rtr_attr(struct cma_id *id, struct ibv_qp_attr *a, int *mask)
{
	*mask = IBV_QP_STATE;
	if (cma_is_datagram(id))
		return 0;
	if (!id->conn)
		return -EINVAL;
	cma_fill_ah(id, id->to.way.dst, &a->ah_attr);
	a->path_mtu = (enum ibv_mtu)id->to.mtu;
	a->dest_qp_num = id->peer_qpn;
	a->rq_psn = id->psn; /* each says with what the other begins */
	*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (id->id.qp_type == IBV_QPT_UC)
		return 0;
	a->max_dest_rd_atomic = id->resources;
	a->min_rnr_timer = 0; /* the longest: 655 ms */
	*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return 0;
}

static int rts_attr(struct cma_id *id, struct ibv_qp_attr *a, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	a->sq_psn = cma_is_datagram(id) ? 0 : id->peer_psn;
	if (id->id.qp_type != IBV_QPT_RC)
		return 0;
	a->timeout = id->ack_timeout;
	a->retry_cnt = id->retry_count;
	a->rnr_retry = id->rnr_retry;
	a->max_rd_atomic = id->depth;
	*mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		 IBV_QP_MAX_QP_RD_ATOMIC;
	return 0;
}

static int attr_for(struct cma_id *id, struct ibv_qp_attr *a, int *mask)
{
	if (cma_is_iwarp(id))
		return iwarp_attr(id, a, mask);
	switch (a->qp_state) {
	case IBV_QPS_INIT:
		return init_attr(id, a, mask);
	case IBV_QPS_RTR:
		return rtr_attr(id, a, mask);
	case IBV_QPS_RTS:
		return rts_attr(id, a, mask);
	case IBV_QPS_RESET:
	case IBV_QPS_SQD:
	case IBV_QPS_SQE:
	case IBV_QPS_ERR:
	case IBV_QPS_UNKNOWN:
		break;
	}
	return -EINVAL;
}

EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr,
			     int *qp_attr_mask)
{
	if (!qp_attr || !qp_attr_mask || !id->verbs)
		return cma_result(-EINVAL);
	return cma_result(attr_for(cma_of(id), qp_attr, qp_attr_mask));
}

static int enter(struct cma_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };
	int mask, rc = attr_for(id, &a, &mask);

	return rc ? rc : -ibv_modify_qp(qp, &a, mask);
}

int cma_qp_connect(struct cma_id *id)
{
	/* INIT again: what the peer may do is known now. */
	int rc = enter(id, id->id.qp, IBV_QPS_INIT);

	if (!rc)
		rc = enter(id, id->id.qp, IBV_QPS_RTR);
	return rc ? rc : enter(id, id->id.qp, IBV_QPS_RTS);
}

int cma_qp_prepare(struct cma_id *id)
{
	return enter(id, id->id.qp, IBV_QPS_INIT);
}

void cma_qp_error(struct cma_id *id)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	if (id->id.qp && !cma_is_datagram(id))
		(void)ibv_modify_qp(id->id.qp, &a, IBV_QP_STATE);
}

/* --- completion queues --------------------------------------------------- */

static struct ibv_cq *make_cq(struct cma_id *id, uint32_t depth,
			      struct ibv_comp_channel **ch)
{
	struct ibv_cq *cq;

	*ch = ibv_create_comp_channel(id->id.verbs);
	if (!*ch)
		return NULL;
	cq = ibv_create_cq(id->id.verbs, depth ? (int)depth : 1, &id->id, *ch, 0);
	if (cq)
		return cq;
	ibv_destroy_comp_channel(*ch);
	*ch = NULL;
	return NULL;
}

static void drop_cq(struct ibv_cq **cq, struct ibv_comp_channel **ch)
{
	if (*cq)
		ibv_destroy_cq(*cq);
	if (*ch)
		ibv_destroy_comp_channel(*ch);
	*cq = NULL;
	*ch = NULL;
}

static void drop_cqs(struct cma_id *id)
{
	drop_cq(&id->id.recv_cq, &id->id.recv_cq_channel);
	drop_cq(&id->id.send_cq, &id->id.send_cq_channel);
}

/* Those that the program does not bring.  The SRQ's is the receive CQ, too. */
static int make_cqs(struct cma_id *id, uint32_t send, uint32_t recv)
{
	if (send) {
		id->id.send_cq = make_cq(id, send, &id->id.send_cq_channel);
		if (!id->id.send_cq)
			return -errno;
	}
	if (recv && !id->id.recv_cq) {
		id->id.recv_cq = make_cq(id, recv, &id->id.recv_cq_channel);
		if (!id->id.recv_cq)
			return -errno;
	}
	return 0;
}

/* --- the QP -------------------------------------------------------------- */

static int start(struct cma_id *id, struct ibv_qp *qp)
{
	int rc = enter(id, qp, IBV_QPS_INIT);

	if (rc || !cma_is_datagram(id))
		return rc;
	rc = enter(id, qp, IBV_QPS_RTR);
	return rc ? rc : enter(id, qp, IBV_QPS_RTS);
}

/* Adapters keep inline data where scatter entries lie, so there is room for as
 * much; rdma_xclient sends 16 bytes inline without having asked for it. */
static void raise_inline(struct ibv_qp_cap *cap)
{
	enum { ENTRY = 16, MAX = 512 };
	uint32_t room = cap->max_send_sge > MAX / ENTRY ? 0 : cap->max_send_sge * ENTRY;

	if (cap->max_inline_data < room)
		cap->max_inline_data = room;
}

static int create_qp(struct cma_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp;
	int rc;

	if (id->id.qp || !id->id.verbs)
		return -EINVAL;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD)) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->id.pd;
	}
	if (id->id.verbs != attr->pd->context)
		return -EINVAL;
	rc = make_cqs(id, attr->send_cq ? 0 : attr->cap.max_send_wr,
		      attr->recv_cq || attr->srq || id->id.srq ? 0
							       : attr->cap.max_recv_wr);
	if (rc)
		goto drop;
	if (!attr->send_cq)
		attr->send_cq = id->id.send_cq ? id->id.send_cq : id->id.recv_cq;
	if (!attr->recv_cq)
		attr->recv_cq = id->id.recv_cq ? id->id.recv_cq : id->id.send_cq;
	if (id->id.srq && !attr->srq)
		attr->srq = id->id.srq;
	raise_inline(&attr->cap);
	qp = ibv_create_qp_ex(id->id.verbs, attr);
	rc = qp ? start(id, qp) : -errno;
	if (rc) {
		if (qp)
			ibv_destroy_qp(qp);
		goto drop;
	}
	id->id.pd = qp->pd;
	id->id.qp = qp;
	return 0;

drop:
	if (!id->id.srq)
		drop_cqs(id);
	return rc;
}

EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	return cma_result(create_qp(cma_of(id), attr));
}

EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *init)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_context = init->qp_context,
		.send_cq = init->send_cq,
		.recv_cq = init->recv_cq,
		.srq = init->srq,
		.cap = init->cap,
		.qp_type = init->qp_type,
		.sq_sig_all = init->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd ? pd : id->pd,
	};
	int rc = rdma_create_qp_ex(id, &attr);

	if (rc)
		return rc;
	init->qp_type = attr.qp_type;
	init->send_cq = attr.send_cq;
	init->recv_cq = attr.recv_cq;
	init->srq = attr.srq;
	init->cap = attr.cap;
	return 0;
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
	if (!id->qp)
		return;
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
	if (!id->srq)
		drop_cqs(cma_of(id));
}

/* --- shared receive queues ----------------------------------------------- */

static int create_srq(struct cma_id *id, struct ibv_srq_init_attr_ex *attr)
{
	int rc;

	if (id->id.srq || !id->id.verbs)
		return -EINVAL;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD)) {
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
		attr->pd = id->id.pd;
	}
	rc = make_cqs(id, 0, attr->attr.max_wr);
	if (rc)
		return rc;
	id->id.srq = ibv_create_srq_ex(id->id.verbs, attr);
	if (id->id.srq) {
		id->id.pd = attr->pd;
		return 0;
	}
	rc = -errno;
	drop_cqs(id);
	return rc;
}

EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	return cma_result(create_srq(cma_of(id), attr));
}

EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd,
			   struct ibv_srq_init_attr *init)
{
	struct ibv_srq_init_attr_ex attr = {
		.srq_context = init->srq_context,
		.attr = init->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | (pd ? IBV_SRQ_INIT_ATTR_PD : 0),
		.srq_type = IBV_SRQT_BASIC,
		.pd = pd,
	};
	int rc = rdma_create_srq_ex(id, &attr);

	if (!rc)
		init->attr = attr.attr;
	return rc;
}

EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
	if (!id->srq)
		return;
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	if (!id->qp)
		drop_cqs(cma_of(id));
}
