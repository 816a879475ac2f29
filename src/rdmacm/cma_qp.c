/* SPDX-License-Identifier: BSD-2-Clause */
/* cma_qp.c - see cma_qp.h. */
#include "rdmacm/cma_qp.h"

#include <errno.h>
#include <string.h>

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
	if (id->to.route.dlid) { /* InfiniBand, within the subnet */
		ah->is_global = 0;
		ah->dlid = id->to.route.dlid;
		ah->sl = id->to.route.sl;
		ah->static_rate = id->to.rate;
	}
}

/* --- attributes ---------------------------------------------------------- */

/* As with Linux's iw_cm, the connection sets all other attributes. */
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
	a->pkey_index = id->to.route.pkey_index;
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

/* The peer is known only after a request or a response. */
static int rtr_attr(struct cma_id *id, struct ibv_qp_attr *a, int *mask)
{
	*mask = IBV_QP_STATE;
	if (cma_is_datagram(id))
		return 0;
	if (!id->conn)
		return -EINVAL;
	cma_fill_ah(id, id->to.route.dst, &a->ah_attr);
	a->path_mtu = (enum ibv_mtu)id->to.mtu;
	a->dest_qp_num = id->peer_qpn;
	a->rq_psn = id->psn; /* each end chooses the PSN with which the other begins */
	*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (id->id.qp_type != IBV_QPT_RC && id->id.qp_type != IBV_QPT_XRC_RECV)
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
	if (cma_is_datagram(id) || id->id.qp_type == IBV_QPT_UC)
		return 0;
	a->timeout = id->ack_timeout;
	*mask |= IBV_QP_TIMEOUT;
	if (id->id.qp_type == IBV_QPT_XRC_RECV)
		return 0;
	a->retry_cnt = id->retry_count;
	a->rnr_retry = id->rnr_retry;
	a->max_rd_atomic = id->depth;
	*mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return 0;
}

int cma_qp_attr(struct cma_id *id, struct ibv_qp_attr *a, int *mask)
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

static int enter_state(struct cma_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };
	int mask, rc = cma_qp_attr(id, &a, &mask);

	return rc ? rc : -ibv_modify_qp(qp, &a, mask);
}

int cma_qp_start(struct cma_id *id, struct ibv_qp *qp)
{
	int rc = enter_state(id, qp, IBV_QPS_INIT);

	if (rc || !cma_is_datagram(id))
		return rc;
	rc = enter_state(id, qp, IBV_QPS_RTR);
	return rc ? rc : enter_state(id, qp, IBV_QPS_RTS);
}

int cma_qp_connect(struct cma_id *id)
{
	/* INIT again, as the access flags depend on the request or response. */
	int rc = enter_state(id, id->id.qp, IBV_QPS_INIT);

	if (!rc)
		rc = enter_state(id, id->id.qp, IBV_QPS_RTR);
	return rc ? rc : enter_state(id, id->id.qp, IBV_QPS_RTS);
}

int cma_qp_prepare(struct cma_id *id)
{
	return enter_state(id, id->id.qp, IBV_QPS_INIT);
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

/* Destroys the CQs that neither the id's QP nor its SRQ uses any more. */
static void drop_cqs(struct cma_id *id)
{
	if (!id->id.qp)
		drop_cq(&id->id.send_cq, &id->id.send_cq_channel);
	if (!id->id.qp && !id->id.srq)
		drop_cq(&id->id.recv_cq, &id->id.recv_cq_channel);
}

/* Makes the CQs that the program does not supply. An SRQ's completions go to the receive
 * CQ. */
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

/* Real adapters keep inline data in the place of scatter entries, so they have room for
 * as much; rdma_xclient sends 16 bytes inline without having asked for it. */
static void raise_inline(struct ibv_qp_cap *cap)
{
	enum { ENTRY = 16, MAX = 512 };
	uint32_t room = cap->max_send_sge > MAX / ENTRY ? 0 : cap->max_send_sge * ENTRY;

	if (cap->max_inline_data < room)
		cap->max_inline_data = room;
}

int cma_create_qp(struct cma_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp;
	int rc;

	if (id->id.qp || !id->dev || !attr)
		return -EINVAL;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD)) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->id.pd;
	}
	if (!attr->pd || id->id.verbs != attr->pd->context)
		return -EINVAL;
	if (id->id.qp_type == IBV_QPT_XRC_RECV &&
	    !(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD)) {
		attr->xrcd = cma_dev_xrcd(id->dev);
		if (!attr->xrcd)
			return -errno;
		attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	}
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
	rc = qp ? cma_qp_start(id, qp) : -errno;
	if (rc) {
		if (qp)
			ibv_destroy_qp(qp);
		goto drop;
	}
	id->id.pd = attr->pd; /* an XRC target has none */
	id->id.qp = qp;
	return 0;

drop:
	drop_cqs(id);
	return rc;
}

int cma_create_qp_of(struct cma_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
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
		.pd = pd ? pd : id->id.pd,
	};
	int rc = cma_create_qp(id, &attr);

	if (rc)
		return rc;
	init->qp_type = attr.qp_type;
	init->send_cq = attr.send_cq;
	init->recv_cq = attr.recv_cq;
	init->srq = attr.srq;
	init->cap = attr.cap;
	return 0;
}

int cma_destroy_qp(struct cma_id *id)
{
	int rc = id->id.qp ? ibv_destroy_qp(id->id.qp) : 0;

	if (rc)
		return -rc;
	id->id.qp = NULL;
	drop_cqs(id);
	return 0;
}

/* --- shared receive queues ----------------------------------------------- */

static bool is_xrc(const struct ibv_srq_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type == IBV_SRQT_XRC;
}

/* Gives an XRC SRQ the domain and the CQ that the program does not name. */
static int complete_xrc(struct cma_id *id, struct ibv_srq_init_attr_ex *attr)
{
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd)
		attr->xrcd = cma_dev_xrcd(id->dev);
	if (!attr->xrcd)
		return -errno;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq)
		attr->cq = id->id.recv_cq;
	attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	return 0;
}

int cma_create_srq(struct cma_id *id, struct ibv_srq_init_attr_ex *attr)
{
	int rc;

	if (id->id.srq || !id->dev || !attr)
		return -EINVAL;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD)) {
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
		attr->pd = id->id.pd;
	}
	rc = attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ && attr->cq
		     ? 0
		     : make_cqs(id, 0, attr->attr.max_wr);
	if (!rc && is_xrc(attr))
		rc = complete_xrc(id, attr);
	if (rc) {
		drop_cqs(id);
		return rc;
	}
	id->id.srq = ibv_create_srq_ex(id->id.verbs, attr);
	if (id->id.srq) {
		id->id.pd = attr->pd;
		return 0;
	}
	rc = -errno;
	drop_cqs(id);
	return rc;
}

int cma_create_srq_of(struct cma_id *id, struct ibv_pd *pd,
		      struct ibv_srq_init_attr *init)
{
	struct ibv_srq_init_attr_ex attr = {
		.srq_context = init->srq_context,
		.attr = init->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | (pd ? IBV_SRQ_INIT_ATTR_PD : 0),
		.srq_type = id->id.qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC
							       : IBV_SRQT_BASIC,
		.pd = pd,
	};
	int rc = cma_create_srq(id, &attr);

	if (!rc)
		init->attr = attr.attr;
	return rc;
}

int cma_destroy_srq(struct cma_id *id)
{
	int rc = id->id.srq ? ibv_destroy_srq(id->id.srq) : 0;

	if (rc)
		return -rc;
	id->id.srq = NULL;
	drop_cqs(id);
	return 0;
}
