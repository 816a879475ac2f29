/* SPDX-License-Identifier: BSD-2-Clause */
/* dm.c - device memory. In a forked child the context is dead, but device memory can
 * still be allocated and freed, as it is the child's own. */
#include "verbs/dm.h"

#include "abi/abi.h"
#include "verbs/mr.h"

static bool dm_lives(struct ibv_dm *ibv)
{
	const void *owner;

	return live_find(LIVE(dm_of, ibv), LIVE_DM, &owner);
}

/* Programs call to_dm() and from_dm() through a pointer in ibv, which may be freed. */
static int to_dm(struct ibv_dm *ibv, uint64_t offset, const void *from, size_t length)
{
	if (!abi_alone())
		return EDEADLK;
	return abi_result(dm_lives(ibv) ? dm_write(dm_of(ibv), offset, from, length)
					: -EINVAL);
}

static int from_dm(void *to, struct ibv_dm *ibv, uint64_t offset, size_t length)
{
	if (!abi_alone())
		return EDEADLK;
	return abi_result(dm_lives(ibv) ? dm_read(to, dm_of(ibv), offset, length)
					: -EINVAL);
}

struct ibv_dm *abi_alloc_dm(struct ibv_context *ibv, struct ibv_alloc_dm_attr *attr)
{
	struct dm *dm;
	int rc;

	if (!GIVEN("alloc_dm", attr))
		return NULL;
	if (!abi_enter_child(ibv))
		return NULL;
	rc = dm_alloc(abi_of(ibv)->ctx.core, ibv, attr, &dm);
	if (abi_leave(rc))
		return NULL;
	dm->ibv.memcpy_to_dm = to_dm;
	dm->ibv.memcpy_from_dm = from_dm;
	return &dm->ibv;
}

int abi_free_dm(struct ibv_dm *ibv)
{
	if (!abi_alone())
		return EDEADLK;
	if (!dm_lives(ibv))
		return abi_result(-ENOENT);
	inside_begin();
	abi_hold();
	return abi_leave(dm_free(dm_of(ibv)));
}

struct ibv_mr *abi_reg_dm_mr(struct ibv_pd *ibv, struct ibv_dm *dm, uint64_t offset,
			     size_t length, unsigned access)
{
	struct ibv_context *ctx = abi_enter_on(LIVE(pd_of, ibv), LIVE_PD, EINVAL);
	struct mr *mr = NULL;
	int rc;

	if (!ctx)
		return NULL;
	rc = dm ? abi_check("reg_dm_mr", LIVE(dm_of, dm), LIVE_DM, ctx) : -EINVAL;
	if (!rc)
		rc = dm_reg(pd_of(ibv), dm_of(dm), offset, length, (int)access, &mr);
	return abi_leave(rc) ? NULL : &mr->ibv;
}
