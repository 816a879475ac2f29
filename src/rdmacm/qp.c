/* SPDX-License-Identifier: BSD-2-Clause */
/* qp.c - see qp.h. */
#include "rdmacm/qp.h"

#include <errno.h>

#include "rdmacm/qp_state.h"

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
