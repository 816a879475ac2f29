/* SPDX-License-Identifier: BSD-2-Clause */
/* dm.c - see dm.h. */
#include "verbs/dm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/like.h"
#include "verbs/mr.h"

struct dm *dm_of(struct ibv_dm *ibv)
{
	return container_of(ibv, struct dm, ibv);
}

static int check_attr(const struct ibv_alloc_dm_attr *a, size_t page)
{
	if (!a->comp_mask && a->length && a->length <= caps.max_dm &&
	    a->log_align_req < 32 && (size_t)1 << a->log_align_req <= page)
		return 0;
	log_info("device memory refused: %zu bytes, aligned to 2^%u, "
		 "comp_mask %#x (limits: %u bytes, aligned to %zu, "
		 "comp_mask 0)",
		 a->length, a->log_align_req, a->comp_mask, caps.max_dm, page);
	return -EINVAL;
}

/* Reserves bytes of caps.max_dm, which all devices share. */
static int take_bytes(struct core *core, size_t bytes)
{
	if (atomic_fetch_add(&core->counts.dm_bytes, bytes) + bytes <= caps.max_dm)
		return 0;
	atomic_fetch_sub(&core->counts.dm_bytes, bytes);
	log_info("device memory refused: of the device's %u bytes fewer "
		 "than %zu are free",
		 caps.max_dm, bytes);
	return -ENOMEM;
}

int dm_alloc(struct core *core, struct ibv_context *ctx,
	     const struct ibv_alloc_dm_attr *attr, struct dm **out)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int rc = check_attr(attr, page);
	struct dm *dm;

	if (!rc)
		rc = like_lacks(LIKE_DM, "alloc_dm");
	if (rc)
		return rc;
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return -ENOMEM;
	dm->core = core;
	dm->length = attr->length;
	dm->occupied = (attr->length + page - 1) & ~(page - 1);
	rc = take_bytes(core, dm->occupied);
	if (rc)
		goto free_dm;
	dm->host = mmap(NULL, dm->occupied, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (dm->host == MAP_FAILED) {
		rc = -ENOMEM;
		goto give;
	}
	dm->ibv = (struct ibv_dm){
		.context = ctx,
		.comp_mask = IBV_DM_MASK_HANDLE,
		.handle = core_handle(core),
	};
	lock_take(&core->lock);
	list_add_tail(&core->dm_list, &dm->node);
	lock_give(&core->lock);
	live_add(&dm->live, LIVE_DM, ctx);
	*out = dm;
	return 0;
give:
	atomic_fetch_sub(&core->counts.dm_bytes, dm->occupied);
free_dm:
	free(dm);
	return rc;
}

/* Takes dm off the list unless it is in use. Returns its number of users. */
static unsigned take_off(struct dm *dm)
{
	struct core *core = dm->core;
	unsigned users;

	lock_take(&core->lock);
	users = atomic_load(&dm->users);
	if (!users)
		list_del(&dm->node);
	lock_give(&core->lock);
	return users;
}

int dm_free(struct dm *dm)
{
	unsigned users;

	if (dm->of)
		return -EINVAL;
	users = take_off(dm);
	if (users) {
		log_info("device memory %u is not freed: %u regions and imports use it",
			 dm->ibv.handle, users);
		return -EBUSY;
	}
	live_del(&dm->live);
	munmap(dm->host, dm->occupied);
	atomic_fetch_sub(&dm->core->counts.dm_bytes, dm->occupied);
	free(dm);
	return 0;
}

static bool within(const struct dm *dm, uint64_t offset, size_t length)
{
	return length <= dm->length && offset <= dm->length - length;
}

static int check_copy(const struct dm *dm, uint64_t offset, size_t length)
{
	if (!within(dm, offset, length))
		return -EFAULT;
	return offset % DM_ALIGN || length % DM_ALIGN ? -EINVAL : 0;
}

int dm_write(struct dm *dm, uint64_t offset, const void *from, size_t length)
{
	int rc = check_copy(dm, offset, length);

	if (!rc)
		memcpy(dm->host + offset, from, length);
	return rc;
}

int dm_read(void *to, const struct dm *dm, uint64_t offset, size_t length)
{
	int rc = check_copy(dm, offset, length);

	if (!rc)
		memcpy(to, dm->host + offset, length);
	return rc;
}

/* --- regions --------------------------------------------------------------- */

static void release(struct mr *mr)
{
	struct dm *of = mr->of;

	atomic_fetch_sub(&of->users, 1);
}

int dm_reg(struct pd *pd, struct dm *dm, uint64_t offset, size_t length, int access,
	   struct mr **out)
{
	const int never = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB;
	struct dm *of = dm->of ? dm->of : dm;
	int rc = mr_check_access(pd, access);

	if (rc)
		return rc;
	if (!(access & IBV_ACCESS_ZERO_BASED) || access & never ||
	    !within(dm, offset, length)) {
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
	(*out)->release = release;
	(*out)->of = of;
	(*out)->ibv.addr = NULL;
	atomic_fetch_add(&of->users, 1);
	return 0;
}

/* --- imports --------------------------------------------------------------- */

static struct dm *find_dm(struct core *core, uint32_t handle,
			  bool (*ok)(const struct dm *dm, const void *ctx),
			  const void *ctx)
{
	struct dm *found = NULL;

	lock_take(&core->lock);
	list_for(n, &core->dm_list)
	{
		struct dm *dm = container_of(n, struct dm, node);

		if (dm->ibv.handle == handle && ok(dm, ctx))
			found = dm;
	}
	if (found)
		atomic_fetch_add(&found->users, 1);
	lock_give(&core->lock);
	return found;
}

int dm_import(struct ibv_context *ctx, struct core *core, uint32_t handle,
	      bool (*ok)(const struct dm *dm, const void *ctx), struct dm **out)
{
	struct dm *of = find_dm(core, handle, ok, ctx), *dm;

	if (!of)
		return -ENOENT;
	dm = calloc(1, sizeof(*dm));
	if (!dm) {
		atomic_fetch_sub(&of->users, 1);
		return -ENOMEM;
	}
	dm->core = core;
	dm->of = of;
	dm->host = of->host;
	dm->length = of->length;
	list_init(&dm->node);
	dm->ibv = of->ibv;
	dm->ibv.context = ctx;
	live_add(&dm->live, LIVE_DM, ctx);
	*out = dm;
	return 0;
}

void dm_unimport(struct dm *dm)
{
	live_del(&dm->live);
	atomic_fetch_sub(&dm->of->users, 1);
	free(dm);
}
