/* SPDX-License-Identifier: BSD-2-Clause */
/* domain.c - domains: protection, parent, thread, XRC. */
#include "abi/abi.h"
#include "verbs/pd.h"
#include "verbs/xrc.h"

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *ibv)
{
	struct pd *pd;
	int rc;

	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return NULL;
	rc = upset_refuses(UPSET_ALLOC_PD);
	if (!rc)
		rc = pd_alloc(abi_of(ibv)->ctx.core, ibv, &pd);
	return abi_leave(rc) ? NULL : &pd->ibv;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	if (!abi_enter_on(LIVE(pd_of, ibv), LIVE_PD, ENOENT))
		return errno;
	return abi_leave(pd_free(pd_of(ibv)));
}

struct ibv_td *abi_alloc_td(struct ibv_context *ibv, struct ibv_td_init_attr *attr)
{
	struct td *td;

	if (!GIVEN("alloc_td", attr))
		return NULL;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return NULL;
	return abi_leave(td_alloc(ibv, attr, &td)) ? NULL : &td->ibv;
}

int abi_dealloc_td(struct ibv_td *ibv)
{
	if (!abi_enter_on(LIVE(td_of, ibv), LIVE_TD, ENOENT))
		return errno;
	return abi_leave(td_free(td_of(ibv)));
}

struct ibv_pd *abi_alloc_parent_domain(struct ibv_context *ibv,
				       struct ibv_parent_domain_init_attr *attr)
{
	struct pd *pd;
	int rc;

	if (!GIVEN("alloc_parent_domain", attr))
		return NULL;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return NULL;
	rc = abi_check("alloc_parent_domain", LIVE(pd_of, attr->pd), LIVE_PD, ibv);
	if (!rc)
		rc = abi_check("alloc_parent_domain", LIVE(td_of, attr->td), LIVE_TD,
			       ibv);
	if (!rc)
		rc = pd_parent(ibv, attr, &pd);
	return abi_leave(rc) ? NULL : &pd->ibv;
}

struct ibv_xrcd *abi_open_xrcd(struct ibv_context *ibv, struct ibv_xrcd_init_attr *attr)
{
	struct xrcd *x;

	if (!GIVEN("open_xrcd", attr))
		return NULL;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return NULL;
	return abi_leave(xrcd_open(&abi_of(ibv)->ctx, attr, &x)) ? NULL : &x->ibv;
}

int abi_close_xrcd(struct ibv_xrcd *ibv)
{
	if (!abi_enter_on(LIVE(xrcd_of, ibv), LIVE_XRCD, ENOENT))
		return errno;
	return abi_leave(xrcd_close(xrcd_of(ibv)));
}
