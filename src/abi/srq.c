/* SPDX-License-Identifier: BSD-2-Clause */
/* srq.c - shared receive queues. */
#include "abi/abi.h"
#include "core/mr.h"
#include "core/rq.h"

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd,
				      struct ibv_srq_init_attr *attr)
{
	struct srq *srq;
	int rc;

	if (!abi_enter(pd->context))
		return NULL;
	rc = srq_create(&abi_of(pd->context)->ctx, pd_of(pd), attr, &srq);
	return abi_leave(rc) ? NULL : &srq->ibv;
}

/* The inline wrapper sends a plain SRQ to ibv_create_srq(); what comes here
 * wants something more. */
struct ibv_srq *abi_create_srq_ex(struct ibv_context *ibv,
				  struct ibv_srq_init_attr_ex *ex)
{
	struct ibv_srq_init_attr attr;
	struct ibv_srq *srq;

	(void)ibv;
	if ((ex->comp_mask & ~(uint32_t)(IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE)) ||
	    (ex->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && ex->srq_type != IBV_SRQT_BASIC)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!(ex->comp_mask & IBV_SRQ_INIT_ATTR_PD)) {
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
	if (!abi_enter(ibv->context))
		return EIO;
	return abi_leave(srq_modify(srq_of(ibv), attr, mask));
}

EXPORT int ibv_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
	if (!abi_enter(ibv->context))
		return EIO;
	return abi_leave(srq_query(srq_of(ibv), attr));
}

EXPORT int ibv_destroy_srq(struct ibv_srq *ibv)
{
	if (!abi_enter(ibv->context))
		return EIO;
	return abi_leave(srq_destroy(srq_of(ibv)));
}

int abi_get_srq_num(struct ibv_srq *ibv, uint32_t *num)
{
	if (!abi_enter(ibv->context))
		return EIO;
	*num = srq_of(ibv)->num;
	return abi_leave(0);
}
