/* SPDX-License-Identifier: BSD-2-Clause */
/* mw.c - memory windows.  Type 2 windows are bound by work requests; for
 * those of type 1, ibv_bind_mw() makes the work request. */
#include "abi/abi.h"
#include "core/mr.h"

static struct mw *mw_of(struct ibv_mw *ibv)
{
	return container_of(ibv, struct mw, ibv);
}

struct ibv_mw *abi_alloc_mw(struct ibv_pd *ibv, enum ibv_mw_type type)
{
	struct mw *mw;

	if (!abi_enter(ibv->context))
		return NULL;
	return abi_leave(mw_alloc(pd_of(ibv), type, &mw)) ? NULL : &mw->ibv;
}

int abi_dealloc_mw(struct ibv_mw *ibv)
{
	if (!abi_enter(ibv->context))
		return EIO;
	return abi_leave(mw_dealloc(mw_of(ibv)));
}

static int check_bind(const struct ibv_qp *qp, const struct ibv_mw *mw,
		      const struct ibv_mw_bind_info *info)
{
	if (mw->type != IBV_MW_TYPE_1)
		return -EINVAL;
	if (!info->mr && (info->addr || info->length))
		return -EINVAL;
	if (mw->pd != qp->pd || (info->mr && info->mr->pd != qp->pd))
		return -EPERM;
	return 0;
}

/* The window's new rkey is known as soon as the bind is posted. */
int abi_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
		.bind_mw = {
			.mw = mw,
			.rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = bind->bind_info,
		},
	};
	int rc = check_bind(qp, mw, &bind->bind_info);

	if (rc)
		return abi_result(rc);
	rc = abi_post_send(qp, &wr, &bad);
	if (!rc)
		mw->rkey = wr.bind_mw.rkey;
	return rc;
}
