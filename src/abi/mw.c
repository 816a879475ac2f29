/* SPDX-License-Identifier: BSD-2-Clause */
/* mw.c - memory windows. Type 2 windows are bound by work requests; for type 1 windows
 * ibv_bind_mw() makes the work request. */
#include "abi/abi.h"
#include "verbs/mr.h"
#include "verbs/qp.h"

struct ibv_mw *abi_alloc_mw(struct ibv_pd *ibv, enum ibv_mw_type type)
{
	struct mw *mw;

	if (!abi_enter_on(LIVE(pd_of, ibv), LIVE_PD, EINVAL))
		return NULL;
	return abi_leave(mw_alloc(pd_of(ibv), type, &mw)) ? NULL : &mw->ibv;
}

int abi_dealloc_mw(struct ibv_mw *ibv)
{
	if (!abi_enter_on(LIVE(mw_of, ibv), LIVE_MW, ENOENT))
		return errno;
	return abi_leave(mw_dealloc(mw_of(ibv)));
}

static int check_match(struct ibv_qp *qp, struct ibv_mw *mw,
		       const struct ibv_mw_bind_info *info)
{
	const struct pd *pd = qp_of(qp)->pd;

	if (mw->type != IBV_MW_TYPE_1)
		return -EINVAL;
	if (!info->mr && (info->addr || info->length))
		return -EINVAL;
	if (mw_of(mw)->mkey.pd != pd || (info->mr && mr_of(info->mr)->mkey.pd != pd))
		return -EPERM;
	return 0;
}

static int check_bind(struct ibv_qp *qp, struct ibv_mw *mw,
		      const struct ibv_mw_bind_info *info)
{
	struct ibv_context *ctx = abi_enter_on(LIVE(qp_of, qp), LIVE_QP, EINVAL);
	int rc;

	if (!ctx)
		return errno;
	rc = GIVEN("bind_mw", mw) ? abi_check("bind_mw", LIVE(mw_of, mw), LIVE_MW, ctx)
				  : -EINVAL;
	if (!rc)
		rc = abi_check("bind_mw", LIVE(mr_of, info->mr), LIVE_MR, ctx);
	return abi_leave(rc ? rc : check_match(qp, mw, info));
}

/* The post stores the new key in mw->rkey. */
int abi_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr *bad, wr;
	int rc;

	if (!GIVEN("bind_mw", bind))
		return errno;
	rc = check_bind(qp, mw, &bind->bind_info);
	if (rc)
		return rc;
	wr = (struct ibv_send_wr){
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
		.bind_mw = {
			.mw = mw,
			.rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = bind->bind_info,
		},
	};
	return abi_post_send(qp, &wr, &bad);
}
