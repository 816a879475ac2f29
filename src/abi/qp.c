/* SPDX-License-Identifier: BSD-2-Clause */
/* qp.c - queue pairs and multicast groups. */
#include "verbs/qp.h"

#include "abi/abi.h"
#include "driver/nic.h"
#include "raw/packet.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/mr.h"
#include "verbs/opened.h"
#include "verbs/qp_kind.h"
#include "verbs/xrc.h"

static int check_objects(const struct ibv_context *ctx,
			 const struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_qp_init_attr_ex a = qp_proper_attr(attr);
	int rc = abi_check("create_qp", LIVE(pd_of, a.pd), LIVE_PD, ctx);

	if (!rc)
		rc = abi_check("create_qp", LIVE(xrcd_of, a.xrcd), LIVE_XRCD, ctx);
	if (!rc)
		rc = abi_check("create_qp", LIVE(cq_of, a.send_cq), LIVE_CQ, ctx);
	if (!rc)
		rc = abi_check("create_qp", LIVE(cq_of, a.recv_cq), LIVE_CQ, ctx);
	if (!rc)
		rc = abi_check("create_qp", LIVE(srq_of, a.srq), LIVE_SRQ, ctx);
	if (!rc && attr->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE)
		rc = abi_check("create_qp", LIVE(wq_table_of, a.rwq_ind_tbl),
			       LIVE_WQ_TABLE, ctx);
	return rc;
}

/* Is a QP wanted that receives over the work queues of an indirection table? The caller
 * has checked the table. */
static bool spreads(const struct ibv_qp_init_attr_ex *a)
{
	return a->qp_type == IBV_QPT_RAW_PACKET &&
	       a->comp_mask & (IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH);
}

struct ibv_qp *abi_create_qp_ex(struct ibv_context *ibv, struct ibv_qp_init_attr_ex *attr)
{
	struct abi_context *a;
	struct qp *qp;
	int rc;

	if (!GIVEN("create_qp", attr))
		return NULL;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return NULL;
	a = abi_of(ibv);
	rc = check_objects(ibv, attr);
	if (!rc)
		rc = upset_refuses(UPSET_CREATE_QP);
	if (!rc && spreads(attr))
		rc = spread_create(&a->ctx, attr, &qp);
	else if (!rc)
		rc = qp_create(&a->ctx, attr,
			       attr->qp_type == IBV_QPT_RAW_PACKET ? nic_packets(a->nic)
								   : a->transport,
			       &qp);
	if (abi_leave(rc))
		return NULL;
	if (qp->send_ops)
		abi_wr_ops(qp);
	if (checks)
		checks->ready(&qp->live, LIVE_QP);
	upset_attach_qp(qp);
	return (struct ibv_qp *)&qp->ex;
}

struct ibv_qp *abi_open_qp(struct ibv_context *ibv, struct ibv_qp_open_attr *attr)
{
	struct qp *qp;
	int rc;

	if (!GIVEN("open_qp", attr))
		return NULL;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return NULL;
	rc = attr->comp_mask & IBV_QP_OPEN_ATTR_XRCD
		     ? abi_check("open_qp", LIVE(xrcd_of, attr->xrcd), LIVE_XRCD, ibv)
		     : 0;
	if (!rc)
		rc = opened_open(&abi_of(ibv)->ctx, attr, &qp);
	return abi_leave(rc) ? NULL : &qp->ex.qp_base;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_context *ctx = abi_enter_on(LIVE(pd_of, pd), LIVE_PD, EINVAL);
	struct ibv_qp_init_attr_ex ex;
	struct ibv_qp *qp;

	if (!ctx)
		return NULL;
	abi_end();
	if (!GIVEN("create_qp", attr))
		return NULL;
	ex = (struct ibv_qp_init_attr_ex){
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	qp = abi_create_qp_ex(ctx, &ex);
	if (qp)
		attr->cap = ex.cap;
	return qp;
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ibv)
{
	const void *owner;

	if (!abi_alone() || !live_find(LIVE(qp_of, ibv), LIVE_QP, &owner))
		return NULL;
	return qp_of(ibv)->send_ops ? &qp_of(ibv)->ex : NULL;
}

/* Before INIT, and before RTR: makes sure that packets to the QP's address reach this
 * process. */
static int prepare_modify(struct abi_context *a, struct qp *qp,
			  const struct ibv_qp_attr *attr, int mask)
{
	struct gid_entry e;
	int near;

	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_INIT)
		nic_begins(a->nic, qp);
	if (!(mask & IBV_QP_STATE) || attr->qp_state != IBV_QPS_RTR ||
	    qp->dev->kind->cm_only)
		return 0;
	if (qp->type == IBV_QPT_UD)
		return nic_listen(a->nic, qp->dev, NULL);
	/* A wrong path is left to qp_modify() to report. */
	if (!(mask & IBV_QP_AV) ||
	    device_query_gid(a->ctx.dev, attr->ah_attr.port_num,
			     attr->ah_attr.grh.sgid_index, &e) ||
	    !e.used)
		return 0;
	near = nic_route(a->nic, qp, attr->ah_attr.grh.dgid.raw,
			 mask & IBV_QP_DEST_QPN ? attr->dest_qp_num : 0);
	if (near)
		return near < 0 ? near : 0;
	return nic_listen(a->nic, qp->dev, e.gid.raw);
}

/* A peer that has just come up has the engine set it meanwhile. */
static enum ibv_qp_state state_of(struct qp *qp)
{
	enum ibv_qp_state state;

	lock_take(&qp->lock);
	state = qp->state;
	lock_give(&qp->lock);
	return state;
}

static int modify_fenced(struct abi_context *a, struct qp *qp, struct ibv_qp_attr *attr,
			 int mask)
{
	enum ibv_qp_state state;
	int rc, fenced = 0;

	if (qp->xrc.opened)
		return opened_modify(qp, attr, mask);
	if (mask & IBV_QP_STATE &&
	    (attr->qp_state == IBV_QPS_RESET || attr->qp_state == IBV_QPS_ERR))
		nic_flush(a->nic);
	rc = prepare_modify(a, qp, attr, mask);
	if (!rc)
		rc = qp_modify(qp, attr, mask, nic_now());
	if (rc)
		return rc;
	if (checks)
		checks->modified(&qp->live, attr, mask);
	state = state_of(qp);
	if (state == IBV_QPS_RESET || state == IBV_QPS_ERR || mask & IBV_QP_ACCESS_FLAGS)
		fenced = nic_fence(a->nic, qp->qpn);
	/* Sends requests that waited for the new state. */
	if (state != IBV_QPS_RESET && state != IBV_QPS_INIT)
		nic_post(a->nic, qp, inside_calls > 1);
	return fenced;
}

EXPORT int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct ibv_context *ctx;

	if (!GIVEN("modify_qp", attr))
		return errno;
	ctx = abi_enter_on(LIVE(qp_of, ibv), LIVE_QP, EINVAL);
	return ctx ? abi_leave(modify_fenced(abi_of(ctx), qp_of(ibv), attr, mask))
		   : errno;
}

/* The limit is the shortest time between two frames, so bursts are not supported. */
int abi_modify_qp_rate_limit(struct ibv_qp *ibv, struct ibv_qp_rate_limit_attr *limit)
{
	struct ibv_qp_attr attr = { 0 };
	struct ibv_context *ctx;

	if (!GIVEN("modify_qp_rate_limit", limit))
		return errno;
	ctx = abi_enter_on(LIVE(qp_of, ibv), LIVE_QP, EINVAL);
	if (!ctx)
		return errno;
	if (qp_of(ibv)->type != IBV_QPT_RAW_PACKET)
		return abi_leave(-EOPNOTSUPP);
	if (limit->comp_mask || limit->max_burst_sz || limit->typical_pkt_sz)
		return abi_leave(-EINVAL);
	attr.rate_limit = limit->rate_limit;
	return abi_leave(
		modify_fenced(abi_of(ctx), qp_of(ibv), &attr, IBV_QP_RATE_LIMIT));
}

EXPORT int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init)
{
	int rc;

	if (!GIVEN("query_qp", attr) || !GIVEN("query_qp", init))
		return errno;
	if (!abi_enter_on(LIVE(qp_of, ibv), LIVE_QP, EINVAL))
		return errno;
	/* The mask is only a hint which attributes to fill in: all are. */
	rc = qp_of(ibv)->xrc.opened ? opened_query(qp_of(ibv), attr, init)
				    : qp_query(qp_of(ibv), attr, init);
	if (!rc && mask & IBV_QP_STATE)
		ibv->state = attr->qp_state;
	return abi_leave(rc);
}

/* Keeps peers of this host from writing to memory through this QP. If a peer is in the
 * middle of a write and does not finish, returns -EBUSY: the QP then stays, in RESET, and
 * can be destroyed later. */
static int withdraw_qp(struct nic *nic, struct qp *qp)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	if (!qp->same_host)
		return 0;
	if (qp->state != IBV_QPS_RESET)
		(void)qp_modify(qp, &reset, IBV_QP_STATE, nic_now());
	return nic_fence(nic, qp->qpn);
}

int abi_end_qp(struct nic *nic, struct qp *qp)
{
	uint32_t qpn = qp->qpn;
	int rc;

	if (qp->xrc.opened) {
		opened_destroy(qp);
		return 0;
	}
	if (qp->kind->leave && qp->kind->leave(qp))
		return 0;
	rc = withdraw_qp(nic, qp);
	if (!rc)
		rc = qp_destroy(qp);
	if (!rc)
		nic_fence(nic, qpn);
	return rc;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct ibv_context *ctx = abi_enter_on(LIVE(qp_of, ibv), LIVE_QP, ENOENT);

	if (!ctx)
		return errno;
	if (checks)
		checks->destroys(&qp_of(ibv)->live, LIVE_QP);
	nic_flush(abi_of(ctx)->nic);
	return abi_leave(abi_end_qp(abi_of(ctx)->nic, qp_of(ibv)));
}

/* Attaching twice counts once. The NIC counts the QPs that join a group. */
static int attach_group(struct abi_context *a, struct qp *qp, const union ibv_gid *gid)
{
	int rc;

	rc = mcast_attach(qp, gid);
	if (rc)
		return rc < 0 ? rc : 0;
	rc = nic_join(a->nic, a->ctx.dev, gid, true);
	if (rc)
		mcast_detach(qp, gid);
	return rc;
}

EXPORT int ibv_attach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
	struct ibv_context *ctx;

	(void)lid;
	if (!GIVEN("attach_mcast", gid))
		return errno;
	ctx = abi_enter_on(LIVE(qp_of, ibv), LIVE_QP, EINVAL);
	return ctx ? abi_leave(attach_group(abi_of(ctx), qp_of(ibv), gid)) : errno;
}

EXPORT int ibv_detach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
	struct ibv_context *ctx;
	int rc;

	(void)lid;
	if (!GIVEN("detach_mcast", gid))
		return errno;
	ctx = abi_enter_on(LIVE(qp_of, ibv), LIVE_QP, EINVAL);
	if (!ctx)
		return errno;
	rc = mcast_detach(qp_of(ibv), gid);
	if (!rc)
		nic_join(abi_of(ctx)->nic, abi_of(ctx)->ctx.dev, gid, false);
	return abi_leave(rc);
}
