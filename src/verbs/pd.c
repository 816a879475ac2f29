/* SPDX-License-Identifier: BSD-2-Clause */
/* pd.c - see pd.h. */
#include "verbs/pd.h"

#include <errno.h>
#include <stdlib.h>

#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/like.h"

struct pd *pd_of(struct ibv_pd *ibv)
{
	return container_of(ibv, struct pd, ibv);
}

struct td *td_of(struct ibv_td *ibv)
{
	return container_of(ibv, struct td, ibv);
}

int pd_alloc(struct core *core, struct ibv_context *ctx, struct pd **out)
{
	char whose[LIKE_TEXT];
	struct pd *pd;

	if (count_up(&core->counts.pds, caps.max_pd)) {
		log_info("alloc_pd refused: %u protection domains are there%s",
			 caps.max_pd, like_limit_text(LIKE_max_pd, whose));
		return -ENOMEM;
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd) {
		count_down(&core->counts.pds);
		return -ENOMEM;
	}
	pd->core = core;
	pd->ibv.context = ctx;
	pd->ibv.handle = core_handle(core);
	lock_take(&core->lock);
	list_add_tail(&core->pd_list, &pd->node);
	lock_give(&core->lock);
	live_add(&pd->live, LIVE_PD, ctx);
	*out = pd;
	return 0;
}

/* Takes pd off the list unless it is in use. Returns its number of users. */
static unsigned take_off(struct pd *pd)
{
	struct core *core = pd->core;
	unsigned users;

	lock_take(&core->lock);
	users = atomic_load(&pd->users);
	if (!users)
		list_del(&pd->node);
	lock_give(&core->lock);
	return users;
}

int pd_free(struct pd *pd)
{
	unsigned users;

	if (pd->kind == PD_IMPORTED) {
		log_info("protection domain %u is not deallocated: this handle of "
			 "it was made by ibv_import_pd, and is given up by "
			 "ibv_unimport_pd",
			 pd->ibv.handle);
		return -EINVAL;
	}
	users = take_off(pd);
	if (users) {
		log_info("protection domain %u is not deallocated: %u objects "
			 "use it",
			 pd->ibv.handle, users);
		return -EBUSY;
	}
	live_del(&pd->live);
	if (pd->td)
		atomic_fetch_sub(&pd->td->users, 1);
	if (pd->of)
		pd_unuse(pd->of);
	else
		count_down(&pd->core->counts.pds);
	free(pd);
	return 0;
}

void pd_use(struct pd *pd)
{
	if (pd->of)
		atomic_fetch_add(&pd->of->users, 1);
	atomic_fetch_add(&pd->users, 1);
}

void pd_unuse(struct pd *pd)
{
	struct pd *of = pd->of;

	if (atomic_fetch_sub(&pd->users, 1) == (PD_LEFT | 1))
		free(pd);
	if (of)
		atomic_fetch_sub(&of->users, 1);
}

/* Makes a PD object that refers to `proper`; the caller has counted the use. */
static struct pd *stand_for(struct pd *proper, struct ibv_context *ctx, enum pd_kind kind)
{
	struct pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->core = proper->core;
	pd->of = proper;
	pd->kind = kind;
	list_init(&pd->node);
	pd->ibv.context = ctx;
	pd->ibv.handle = proper->ibv.handle;
	return pd;
}

/* --- parent domains -------------------------------------------------------- */

static bool good_parent(const struct ibv_parent_domain_init_attr *a)
{
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			       IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |
			       PARENT_ALLOWS_CC_UNPROTECTED;

	return a->pd && !(a->comp_mask & ~known) &&
	       (!(a->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) ||
		(a->alloc && a->free));
}

int pd_parent(struct ibv_context *ctx, const struct ibv_parent_domain_init_attr *attr,
	      struct pd **out)
{
	struct pd *pd;

	if (!good_parent(attr)) {
		log_info("parent domain refused: it names no PD, or has an unknown "
			 "bit in comp_mask %#x, or one of alloc and free alone",
			 attr->comp_mask);
		return -EINVAL;
	}
	pd = stand_for(pd_proper(pd_of(attr->pd)), ctx, PD_PARENT);
	if (!pd)
		return -ENOMEM;
	atomic_fetch_add(&pd->of->users, 1);
	pd->how = *attr;
	if (!(attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT))
		pd->how.pd_context = NULL;
	if (attr->td) {
		pd->td = td_of(attr->td);
		atomic_fetch_add(&pd->td->users, 1);
	}
	live_add(&pd->live, LIVE_PD, ctx);
	*out = pd;
	return 0;
}

void pd_forget_allocators(struct pd *pd)
{
	pd->how.free = NULL;
}

int td_alloc(struct ibv_context *ctx, const struct ibv_td_init_attr *attr,
	     struct td **out)
{
	struct td *td;

	if (attr->comp_mask)
		return -EINVAL;
	td = calloc(1, sizeof(*td));
	if (!td)
		return -ENOMEM;
	td->ibv.context = ctx;
	live_add(&td->live, LIVE_TD, ctx);
	*out = td;
	return 0;
}

int td_free(struct td *td)
{
	if (atomic_load(&td->users))
		return -EBUSY;
	live_del(&td->live);
	free(td);
	return 0;
}

/* --- imports --------------------------------------------------------------- */

struct pd *pd_find(struct core *core, uint32_t handle,
		   bool (*ok)(const struct pd *pd, const void *arg), const void *arg)
{
	struct pd *found = NULL;

	lock_take(&core->lock);
	list_for(n, &core->pd_list)
	{
		struct pd *pd = container_of(n, struct pd, node);

		if (pd->ibv.handle == handle && ok(pd, arg))
			found = pd;
	}
	if (found)
		atomic_fetch_add(&found->users, 1);
	lock_give(&core->lock);
	return found;
}

int pd_import(struct ibv_context *ctx, struct pd *proper, struct pd **out)
{
	struct pd *pd = stand_for(proper, ctx, PD_IMPORTED);

	if (!pd) {
		pd_unuse(proper);
		return -ENOMEM;
	}
	live_add(&pd->live, LIVE_PD, ctx);
	*out = pd;
	return 0;
}

void pd_unimport(struct pd *pd)
{
	struct pd *of = pd->of;

	live_del(&pd->live);
	if (!atomic_fetch_or(&pd->users, PD_LEFT))
		free(pd);
	pd_unuse(of);
}

const struct device *pd_device(const struct pd *pd)
{
	const struct ibv_context *ctx = pd->ibv.context;

	return ctx && ctx->device ? device_of(ctx->device) : NULL;
}
