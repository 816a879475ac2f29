/* SPDX-License-Identifier: BSD-2-Clause */
/* mr.c - memory regions. */
#include "verbs/mr.h"

#include "abi/abi.h"

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *ibv, void *addr, size_t length,
				       uint64_t iova, unsigned access)
{
	struct mr *mr;
	int rc;

	if (!abi_enter_on(LIVE(pd_of, ibv), LIVE_PD, EINVAL))
		return NULL;
	rc = upset_refuses(UPSET_REG_MR);
	if (!rc)
		rc = mr_reg(pd_of(ibv), addr, length, iova, (int)access, &mr);
	if (abi_leave(rc))
		return NULL;
	return &mr->ibv;
}

EXPORT struct ibv_mr *(ibv_reg_mr_iova)(struct ibv_pd *ibv, void *addr, size_t length,
					uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(ibv, addr, length, iova, (unsigned)access);
}

EXPORT struct ibv_mr *(ibv_reg_mr)(struct ibv_pd *ibv, void *addr, size_t length,
				   int access)
{
	uint64_t iova = access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)addr;

	return ibv_reg_mr_iova2(ibv, addr, length, iova, (unsigned)access);
}

/* What rdma-core's library refuses before it asks the kernel. */
static bool is_bad_rereg(const struct mr *mr, int flags, const void *addr, size_t length,
			 int access)
{
	return mr->imported || mr->mkey.is_null ||
	       flags & ~IBV_REREG_MR_FLAGS_SUPPORTED ||
	       (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!addr || !length)) ||
	       (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS));
}

/* Whenever a call is refused, the old region stays unchanged. */
EXPORT int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr,
			size_t length, int access)
{
	struct ibv_context *ctx = abi_enter_on(LIVE(mr_of, ibv), LIVE_MR, EINVAL);
	int rc, why = IBV_REREG_MR_ERR_CMD;

	if (!ctx)
		return IBV_REREG_MR_ERR_INPUT;
	if (!(flags & IBV_REREG_MR_CHANGE_PD))
		pd = NULL; /* ignored without that flag: pyverbs passes anything */
	rc = abi_check("rereg_mr", LIVE(pd_of, pd), LIVE_PD, ctx);
	if (rc || (flags & IBV_REREG_MR_CHANGE_PD && !pd) ||
	    is_bad_rereg(mr_of(ibv), flags, addr, length, access))
		why = IBV_REREG_MR_ERR_INPUT;
	if (!rc)
		rc = mr_rereg(mr_of(ibv), flags, pd ? pd_of(pd) : NULL, addr, length,
			      access);
	if (checks && !rc)
		checks->changed(&mr_of(ibv)->live);
	return abi_leave(rc) ? why : 0;
}

EXPORT int ibv_dereg_mr(struct ibv_mr *ibv)
{
	if (!abi_enter_on(LIVE(mr_of, ibv), LIVE_MR, ENOENT))
		return errno;
	if (checks)
		checks->destroys(&mr_of(ibv)->live, LIVE_MR);
	return abi_leave(mr_dereg(mr_of(ibv)));
}

struct ibv_mr *abi_alloc_null_mr(struct ibv_pd *ibv)
{
	struct mr *mr;

	if (!abi_enter_on(LIVE(pd_of, ibv), LIVE_PD, EINVAL))
		return NULL;
	return abi_leave(null_mr_alloc(pd_of(ibv), &mr)) ? NULL : &mr->ibv;
}

int abi_advise_mr(struct ibv_pd *ibv, enum ibv_advise_mr_advice advice, uint32_t flags,
		  struct ibv_sge *sge, uint32_t n)
{
	if (n && !GIVEN("advise_mr", sge))
		return errno;
	if (!abi_enter_on(LIVE(pd_of, ibv), LIVE_PD, EINVAL))
		return errno;
	return abi_leave(mr_advise(pd_of(ibv), advice, flags, sge, n));
}
