/* SPDX-License-Identifier: BSD-2-Clause */
/* mr_adapter.c - null regions (ibv_alloc_null_mr(3)). */
#include "verbs/core.h"
#include "verbs/like.h"
#include "verbs/mr.h"
#include "verbs/null_memory.h"

static int use_null_memory(struct core *core)
{
	int rc;

	lock_take(&core->lock);
	rc = null_memory_use(&core->null);
	lock_give(&core->lock);
	return rc;
}

static void unuse(struct core *core)
{
	lock_take(&core->lock);
	null_memory_unuse(&core->null);
	lock_give(&core->lock);
}

static void release(struct mr *mr)
{
	unuse(mr->core);
}

int null_mr_alloc(struct pd *pd, struct mr **out)
{
	const struct mkey mkey = {
		.valid = true,
		.is_null = true,
		.access = IBV_ACCESS_LOCAL_WRITE,
		.length = UINT64_MAX,
	};
	int rc = like_lacks(LIKE_NULL_MR, "alloc_null_mr");

	if (!rc)
		rc = use_null_memory(pd->core);
	if (rc)
		return rc;
	rc = mr_make(pd, &mkey, out);
	if (rc)
		unuse(pd->core);
	else
		(*out)->release = release;
	return rc;
}
