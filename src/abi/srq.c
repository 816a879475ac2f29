/* SPDX-License-Identifier: BSD-2-Clause */
/* srq.c - shared receive queues. */
#include "abi/abi.h"
#include "core/mr.h"
#include "core/rq.h"

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

/* The inline wrapper sends a plain SRQ to ibv_create_srq(); what comes here
 * wants something more. */
struct ibv_srq *abi_create_srq_ex(struct ibv_context *ibv,
				  struct ibv_srq_init_attr_ex *ex)
{
	struct ibv_srq_init_attr attr;
	struct ibv_srq *srq;

	if ((ex->comp_mask &
	     ~(uint32_t)(IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE)) ||
	    (ex->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && ex->srq_type != IBV_SRQT_BASIC)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!(ex->comp_mask & IBV_SRQ_INIT_ATTR_PD) ||
	    abi_check("create_srq", LIVE(pd_of, ex->pd), LIVE_PD, ibv)) {
		errno = EINVAL;
		return NULL;
	}
	attr = (struct ibv_srq_init_attr){ ex->srq_context, ex->attr };
	srq = ibv_create_srq(ex->pd, &attr);
	if (srq)
		ex->attr = attr.attr;
	return srq;
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
