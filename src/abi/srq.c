/* SPDX-License-Identifier: BSD-2-Clause */
/* srq.c - shared receive queues. */
#include "abi/abi.h"
#include "sys/log.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/rq.h"
#include "verbs/tm.h"
#include "verbs/xrc.h"

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_context *ctx;
	struct srq *srq;
	int rc;

	if (!GIVEN("create_srq", attr))
		return NULL;
	ctx = abi_enter_on(LIVE(pd_of, pd), LIVE_PD, EINVAL);
	if (!ctx)
		return NULL;
	rc = upset_refuses(UPSET_CREATE_SRQ);
	if (!rc)
		rc = srq_create(&abi_of(ctx)->ctx, pd_of(pd), attr, &srq);
	return abi_leave(rc) ? NULL : &srq->ibv;
}

static int check_cq(const struct ibv_context *ibv, const struct ibv_srq_init_attr_ex *ex)
{
	return abi_check("create_srq", LIVE(cq_of, ex->cq), LIVE_CQ, ibv);
}

static int check_objects(const struct ibv_context *ibv,
			 const struct ibv_srq_init_attr_ex *ex, enum ibv_srq_type type)
{
	int rc = ex->comp_mask & IBV_SRQ_INIT_ATTR_PD && ex->pd ? 0 : -EINVAL;

	if (!rc)
		rc = abi_check("create_srq", LIVE(pd_of, ex->pd), LIVE_PD, ibv);
	if (rc || type == IBV_SRQT_BASIC)
		return rc;
	if (type == IBV_SRQT_TM) {
		if (~ex->comp_mask & (IBV_SRQ_INIT_ATTR_TM | IBV_SRQ_INIT_ATTR_CQ) ||
		    !ex->cq) {
			log_info(
				"create_srq refused: a tag-matching SRQ needs tm_cap and "
				"a CQ");
			return -EINVAL;
		}
		return check_cq(ibv, ex);
	}
	if (~ex->comp_mask & (IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ) ||
	    !ex->xrcd || !ex->cq) {
		log_info("create_srq refused: an XRC SRQ needs a domain and a CQ");
		return -EINVAL;
	}
	rc = abi_check("create_srq", LIVE(xrcd_of, ex->xrcd), LIVE_XRCD, ibv);
	return rc ? rc : check_cq(ibv, ex);
}

static int create_srq_ex(struct ibv_context *ibv, struct ibv_srq_init_attr_ex *ex,
			 struct srq **srq)
{
	struct ibv_srq_init_attr attr = { ex->srq_context, ex->attr };
	const enum ibv_srq_type type =
		ex->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? ex->srq_type : IBV_SRQT_BASIC;
	struct context *ctx = &abi_of(ibv)->ctx;
	int rc;

	if (ex->comp_mask & ~(uint32_t)(IBV_SRQ_INIT_ATTR_RESERVED - 1) ||
	    (unsigned)type > IBV_SRQT_TM)
		return -EOPNOTSUPP;
	rc = check_objects(ibv, ex, type);
	if (!rc)
		rc = upset_refuses(UPSET_CREATE_SRQ);
	if (rc)
		return rc;
	if (type == IBV_SRQT_XRC)
		rc = srq_create_xrc(ctx, pd_of(ex->pd), xrcd_of(ex->xrcd), cq_of(ex->cq),
				    &attr, srq);
	else if (type == IBV_SRQT_TM)
		rc = srq_create_tm(ctx, pd_of(ex->pd), cq_of(ex->cq), &ex->tm_cap, &attr,
				   srq);
	else
		rc = srq_create(ctx, pd_of(ex->pd), &attr, srq);
	if (!rc)
		ex->attr = attr.attr;
	return rc;
}

/* The inline wrapper calls ibv_create_srq() for a plain SRQ, so this is called for other
 * kinds. */
struct ibv_srq *abi_create_srq_ex(struct ibv_context *ibv,
				  struct ibv_srq_init_attr_ex *ex)
{
	struct srq *srq;

	if (!GIVEN("create_srq", ex))
		return NULL;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return NULL;
	return abi_leave(create_srq_ex(ibv, ex, &srq)) ? NULL : &srq->ibv;
}

EXPORT int ibv_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
	if (!GIVEN("modify_srq", attr))
		return errno;
	if (!abi_enter_on(LIVE(srq_of, ibv), LIVE_SRQ, EINVAL))
		return errno;
	return abi_leave(srq_modify(srq_of(ibv), attr, mask));
}

EXPORT int ibv_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
	if (!GIVEN("query_srq", attr))
		return errno;
	if (!abi_enter_on(LIVE(srq_of, ibv), LIVE_SRQ, EINVAL))
		return errno;
	return abi_leave(srq_query(srq_of(ibv), attr));
}

EXPORT int ibv_destroy_srq(struct ibv_srq *ibv)
{
	if (!abi_enter_on(LIVE(srq_of, ibv), LIVE_SRQ, ENOENT))
		return errno;
	if (checks)
		checks->destroys(&srq_of(ibv)->live, LIVE_SRQ);
	return abi_leave(srq_destroy(srq_of(ibv)));
}

int abi_get_srq_num(struct ibv_srq *ibv, uint32_t *num)
{
	if (!GIVEN("get_srq_num", num))
		return errno;
	if (!abi_enter_on(LIVE(srq_of, ibv), LIVE_SRQ, EINVAL))
		return errno;
	*num = srq_of(ibv)->num;
	return abi_leave(0);
}
