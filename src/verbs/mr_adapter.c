/* SPDX-License-Identifier: BSD-2-Clause */
/* mr_adapter.c - regions of the adapter's own memory: device memory (ibv_reg_dm_mr(3))
 * and null regions (ibv_alloc_null_mr(3)). */
#include <errno.h>

#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/dm.h"
#include "verbs/mr.h"
#include "verbs/null_memory.h"

int dm_reg(struct pd *pd, struct dm *dm, uint64_t offset, size_t length, int access,
	   struct mr **out)
{
	const int never = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB;
	struct dm *of = dm->of ? dm->of : dm;
	int rc = mr_check_access(pd, access);

	if (rc)
		return rc;
	if (!(access & IBV_ACCESS_ZERO_BASED) || access & never ||
	    !dm_within(dm, offset, length)) {
		log_info("memory region refused: %zu bytes at offset %llu of device "
			 "memory of %zu bytes, access %#x (which must have "
			 "IBV_ACCESS_ZERO_BASED)",
			 length, (unsigned long long)offset, dm->length,
			 (unsigned)access);
		return -EINVAL;
	}
	rc = mr_make(pd,
		     &(struct mkey){ .valid = true,
				     .access = access,
				     .length = length,
				     .host = dm->host + offset },
		     out);
	if (rc)
		return rc;
	(*out)->dm = of;
	(*out)->ibv.addr = NULL;
	atomic_fetch_add(&of->users, 1);
	return 0;
}

static int use(struct core *core)
{
	int rc;

	lock_take(&core->lock);
	rc = null_memory_use(&core->null);
	lock_give(&core->lock);
	return rc;
}

void null_mr_release(struct core *core)
{
	lock_take(&core->lock);
	null_memory_unuse(&core->null);
	lock_give(&core->lock);
}

int null_mr_alloc(struct pd *pd, struct mr **out)
{
	const struct mkey mkey = {
		.valid = true,
		.is_null = true,
		.access = IBV_ACCESS_LOCAL_WRITE,
		.length = UINT64_MAX,
	};
	int rc = use(pd->core);

	if (rc)
		return rc;
	rc = mr_make(pd, &mkey, out);
	if (rc)
		null_mr_release(pd->core);
	return rc;
}
