/* SPDX-License-Identifier: BSD-2-Clause */
/* srq.c - shared receive queues. */
#include "abi/abi.h"
#include "core/cq.h"
#include "core/mr.h"
#include "core/rq.h"
#include "core/xrc.h"
#include "sys/log.h"

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_context *ctx = abi_enter_on(LIVE(pd_of, pd), LIVE_PD, EINVAL);
	struct srq *srq;
	int rc;

	if (!ctx)
		return NULL;
	rc = srq_create(&abi_of(ctx)->ctx, pd_of(pd), attr, &srq);
	return abi_leave(rc) ? NULL : &srq->ibv;
}

static int check_objects(const struct ibv_context *ibv,
			 const struct ibv_srq_init_attr_ex *ex, bool xrc)
{
	int rc = ex->comp_mask & IBV_SRQ_INIT_ATTR_PD && ex->pd ? 0 : -EINVAL;

	if (!rc)
		rc = abi_check("create_srq", LIVE(pd_of, ex->pd), LIVE_PD, ibv);
	if (rc || !xrc)
		return rc;
	if (~ex->comp_mask & (IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ) ||
	    !ex->xrcd || !ex->cq) {
		log_info("create_srq refused: an XRC SRQ needs a domain and a CQ");
		return -EINVAL;
	}
	rc = abi_check("create_srq", LIVE(xrcd_of, ex->xrcd), LIVE_XRCD, ibv);
	return rc ? rc : abi_check("create_srq", LIVE(cq_of, ex->cq), LIVE_CQ, ibv);
}

static int create_srq_ex(struct ibv_context *ibv, struct ibv_srq_init_attr_ex *ex,
			 struct srq **srq)
{
	struct ibv_srq_init_attr attr = { ex->srq_context, ex->attr };
	const enum ibv_srq_type type =
		ex->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? ex->srq_type : IBV_SRQT_BASIC;
	const bool xrc = type == IBV_SRQT_XRC;
	int rc;

	if (ex->comp_mask & ~(uint32_t)(IBV_SRQ_INIT_ATTR_RESERVED - 1) ||
	    (!xrc && type != IBV_SRQT_BASIC))
		return -EOPNOTSUPP;
	rc = check_objects(ibv, ex, xrc);
	if (!rc)
		rc = srq_create_xrc(&abi_of(ibv)->ctx, pd_of(ex->pd),
				    xrc ? xrcd_of(ex->xrcd) : NULL,
				    xrc ? cq_of(ex->cq) : NULL, &attr, srq);
	if (!rc)
		ex->attr = attr.attr;
	return rc;
}

/* The inline wrapper sends a plain SRQ to ibv_create_srq(); what comes here
 * wants something more. */
struct ibv_srq *abi_create_srq_ex(struct ibv_context *ibv,
				  struct ibv_srq_init_attr_ex *ex)
{
	struct srq *srq;

	if (!abi_enter_on(LIVE(abi_of, ibv), LIVE_CONTEXT, EBADF))
		return NULL;
	return abi_leave(create_srq_ex(ibv, ex, &srq)) ? NULL : &srq->ibv;
}

EXPORT int ibv_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
	if (!abi_enter_on(LIVE(srq_of, ibv), LIVE_SRQ, EINVAL))
		return errno;
	return abi_leave(srq_modify(srq_of(ibv), attr, mask));
}

EXPORT int ibv_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
	if (!abi_enter_on(LIVE(srq_of, ibv), LIVE_SRQ, EINVAL))
		return errno;
	return abi_leave(srq_query(srq_of(ibv), attr));
}

EXPORT int ibv_destroy_srq(struct ibv_srq *ibv)
{
	if (!abi_enter_on(LIVE(srq_of, ibv), LIVE_SRQ, ENOENT))
		return errno;
	return abi_leave(srq_destroy(srq_of(ibv)));
}

int abi_get_srq_num(struct ibv_srq *ibv, uint32_t *num)
{
	if (!abi_enter_on(LIVE(srq_of, ibv), LIVE_SRQ, EINVAL))
		return errno;
	*num = srq_of(ibv)->num;
	return abi_leave(0);
}
