/* SPDX-License-Identifier: BSD-2-Clause */
/* mw.c - memory windows (IBTA vol. 1, 10.6.7, 11.2.8.9): keys for part of a region,
 * which work requests bind and invalidate. See mr.h. */
#include <errno.h>
#include <stdlib.h>

#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/like.h"
#include "verbs/mkey.h"
#include "verbs/mr.h"
#include "verbs/qp.h"

struct mw *mw_of(struct ibv_mw *ibv)
{
	return container_of(ibv, struct mw, ibv);
}

int mw_alloc(struct pd *pd, enum ibv_mw_type type, struct mw **out)
{
	struct core *core = pd->core;
	struct mw *mw;
	int rc;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		return -EINVAL;
	if (like_lacks(LIKE_MW, "alloc_mw"))
		return -EOPNOTSUPP;
	rc = count_up(&core->counts.mws, caps.max_mw);
	if (rc)
		return rc;
	mw = calloc(1, sizeof(*mw));
	if (!mw) {
		rc = -ENOMEM;
		goto uncount;
	}
	mw->core = core;
	list_init(&mw->node);
	mw->mkey.is_mw = true;
	mw->mkey.pd = pd_proper(pd);
	rc = mkey_add(&core->mkeys, &mw->mkey);
	if (rc)
		goto release;
	pd_use(pd);
	mw->index = mw->mkey.key >> MKEY_GENERATION_BITS;
	mw->ibv = (struct ibv_mw){
		.context = pd->ibv.context,
		.pd = &pd->ibv,
		.rkey = mw->mkey.key,
		.handle = core_handle(core),
		.type = type,
	};
	live_add(&mw->live, LIVE_MW, mw->ibv.context);
	*out = mw;
	return 0;
release:
	free(mw);
uncount:
	count_down(&core->counts.mws);
	return rc;
}

static struct mw *mw_of_mkey(struct mkey *mk)
{
	return container_of(mk, struct mw, mkey);
}

static void unbind(struct mkey *mk)
{
	list_del(&mw_of_mkey(mk)->node);
	if (mk->region)
		atomic_fetch_sub(&mk->region->windows, 1);
	mk->region = NULL;
	mk->valid = false;
	mk->access = 0;
	mk->qpn = 0;
}

int mw_dealloc(struct mw *mw)
{
	struct core *core = mw->core;

	live_del(&mw->live);
	turn_take(&core->turn);
	unbind(&mw->mkey);
	mkey_del(&core->mkeys, &mw->mkey);
	turn_give(&core->turn);
	pd_unuse(pd_of(mw->ibv.pd));
	count_down(&core->counts.mws);
	free(mw);
	return 0;
}

/* Finds the region that info names; NULL if it is no longer registered. */
static struct mkey *find_region(struct core *core, const struct ibv_mw_bind_info *info)
{
	struct mkey *mk = info->mr ? mkey_find(&core->mkeys, info->mr->lkey) : NULL;

	return mk && !mk->is_mw ? mk : NULL;
}

enum {
	MW_WRITES = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	MW_ACCESS =
		MW_WRITES | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED | ACCESS_FLUSH,
};

/* Counts a window of the region. False: the region is being deregistered. */
static bool use_region(struct mkey *region)
{
	if (!(atomic_fetch_add(&region->windows, 1) & WINDOWS_NONE))
		return true;
	atomic_fetch_sub(&region->windows, 1);
	return false;
}

/* Returns why the window cannot be bound to the region as info says, or NULL.
 * IBV_ACCESS_LOCAL_WRITE in info is ignored, because programs pass the region's flags
 * here. */
static const char *refuse_region(const struct mkey *mk, const struct mkey *region,
				 const struct ibv_mw_bind_info *info)
{
	if (!region)
		return "no such memory region";
	if (region->pd != mk->pd)
		return "the region is of another protection domain";
	if (!(region->access & IBV_ACCESS_MW_BIND))
		return "the region lacks IBV_ACCESS_MW_BIND"; /* C10-73 */
	if (info->mw_access_flags & ~ACCESS_KNOWN)
		return "unknown access flags";
	if (info->mw_access_flags & MW_WRITES && /* C10-74 */
	    !(region->access & IBV_ACCESS_LOCAL_WRITE))
		return "write access to a region that lacks IBV_ACCESS_LOCAL_WRITE";
	if (info->mw_access_flags & ~(unsigned)region->access & ACCESS_FLUSH)
		return "FLUSH rights that the region lacks";
	if (info->length > region->length ||
	    info->addr - region->base > region->length - info->length)
		return "range outside of the region"; /* C10-75 */
	return NULL;
}

static const char *refuse_window(struct mkey *mk, uint32_t handle, enum ibv_mw_type type,
				 const struct pd *pd, const struct ibv_mw_bind_info *info)
{
	if (!mk || !mk->is_mw || mw_of_mkey(mk)->ibv.handle != handle)
		return "no such window";
	if (mw_of_mkey(mk)->ibv.type != type)
		return "the window is of the other type";
	if (mk->pd != pd)
		return "the window is of another protection domain";
	if (type == IBV_MW_TYPE_1)
		return NULL;
	if (mk->valid) /* o10-37.2.30 */
		return "a type 2 window must be invalidated first";
	return info->length ? NULL : "a type 2 window has no length";
}

enum ibv_wc_status mw_bind(struct core *core, uint32_t rkey, uint32_t handle,
			   enum ibv_mw_type type, uint32_t qpn, struct pd *pd,
			   const struct ibv_mw_bind_info *info)
{
	struct mkey *mk = mkey_at(&core->mkeys, rkey), *region = NULL;
	const char *why = refuse_window(mk, handle, type, pd, info);

	if (!why && info->length) {
		region = find_region(core, info);
		why = refuse_region(mk, region, info);
		if (!why && !use_region(region))
			why = "no such memory region";
	}
	if (why) {
		log_info(
			"QP 0x%06x: bind of window 0x%08x (%llu bytes at %#llx) refused: %s",
			qpn, rkey, (unsigned long long)info->length,
			(unsigned long long)info->addr, why);
		return IBV_WC_MW_BIND_ERR;
	}
	unbind(mk);
	mk->key = rkey;
	if (!region)
		return IBV_WC_SUCCESS;
	mk->region = region;
	mk->access = (int)info->mw_access_flags & MW_ACCESS;
	mk->base = mk->access & IBV_ACCESS_ZERO_BASED ? 0 : info->addr;
	mk->length = info->length;
	mk->host = (uint8_t *)((uintptr_t)region->host +
			       (uintptr_t)(info->addr - region->base));
	mk->valid = true;
	if (type == IBV_MW_TYPE_2) {
		mk->qpn = qpn;
		list_add_tail(&core->windows, &mw_of_mkey(mk)->node);
	}
	return IBV_WC_SUCCESS;
}

int mkey_invalidate(struct core *core, uint32_t key, struct pd *pd, uint32_t qpn)
{
	struct mkey *mk = mkey_find(&core->mkeys, key);

	if (!mk || !mk->is_mw || mw_of_mkey(mk)->ibv.type != IBV_MW_TYPE_2 ||
	    mk->pd != pd || (qpn && mk->qpn != qpn)) {
		log_info("QP 0x%06x: key 0x%08x is not invalidated: it is no type 2 "
			 "window of this QP",
			 qpn, key);
		return -EACCES;
	}
	unbind(mk);
	return 0;
}

enum ibv_wc_status mw_work(struct qp *qp, const struct swqe *w, enum verr *verr)
{
	struct ibv_mr region = { .lkey = w->rkey };
	struct ibv_mw_bind_info info;

	turn_is_held(qp->core);
	if (w->opcode == IBV_WR_BIND_MW) {
		info = w->bind.info;
		info.mr = &region;
		*verr = VERR_BIND;
		return mw_bind(qp->core, w->imm, w->bind.handle, w->bind.type, qp->qpn,
			       qp->pd, &info);
	}
	*verr = VERR_INVALIDATE;
	return mkey_invalidate(qp->core, w->imm, qp->pd, qp->qpn) ? IBV_WC_MW_BIND_ERR
								  : IBV_WC_SUCCESS;
}

void mw_forget_qp(struct core *core, uint32_t qpn)
{
	list_for_safe(n, &core->windows)
	{
		struct mw *mw = container_of(n, struct mw, node);

		if (mw->mkey.qpn == qpn)
			unbind(&mw->mkey);
	}
}
