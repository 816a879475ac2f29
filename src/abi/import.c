/* SPDX-License-Identifier: BSD-2-Clause */
/* import.c - imports contexts, protection domains, regions and device memory that another
 * context of the same command descriptor has made: second names of the same objects. Both
 * contexts are in this process, since the adapter is. */
#include <errno.h>

#include "abi/abi.h"
#include "driver/nic.h"
#include "sys/log.h"
#include "verbs/dm.h"
#include "verbs/mr.h"

static int import_device(int fd, struct abi_context **out)
{
	struct ibv_device *dev;
	struct abi_file *file;
	struct fd_id id;
	struct nic *nic;
	int rc = fd_identify(fd, &id);

	if (!rc)
		rc = nic_open(&nic);
	if (rc)
		return rc;
	file = file_find(nic_core(nic), &id, &dev);
	if (!file) {
		log_info("import_device refused: descriptor %d belongs to no device "
			 "that this process has opened",
			 fd);
		rc = -EOPNOTSUPP;
		goto close_nic;
	}
	rc = abi_open_context(nic, dev, file, fd, out);
	if (!rc)
		return 0;
	file_leave(nic_core(nic), file);
close_nic:
	nic_close(nic);
	return rc;
}

EXPORT struct ibv_context *ibv_import_device(int fd)
{
	struct abi_context *a;
	int rc;

	if (!abi_alone())
		return NULL;
	inside_begin();
	abi_hold();
	rc = import_device(fd, &a);
	return abi_leave(rc) ? NULL : &a->ctx.verbs.context;
}

/* Do the two contexts belong to one command file? */
static bool same_file(const struct ibv_context *has, const void *wants)
{
	return abi_of((struct ibv_context *)(uintptr_t)has)->file ==
	       abi_of((struct ibv_context *)(uintptr_t)wants)->file;
}

static bool pd_is_here(const struct pd *pd, const void *ctx)
{
	return same_file(pd->ibv.context, ctx);
}

static bool dm_is_here(const struct dm *dm, const void *ctx)
{
	return same_file(dm->ibv.context, ctx);
}

static bool mr_is_here(const struct mr *mr, const void *ctx)
{
	return same_file(mr->ibv.context, ctx);
}

EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *ibv, uint32_t handle)
{
	struct pd *proper, *pd;
	int rc = -ENOENT;

	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return NULL;
	proper = pd_find(abi_of(ibv)->ctx.core, handle, pd_is_here, ibv);
	if (proper)
		rc = pd_import(ibv, proper, &pd);
	return abi_leave(rc) ? NULL : &pd->ibv;
}

EXPORT void ibv_unimport_pd(struct ibv_pd *ibv)
{
	if (!abi_enter_on(LIVE(pd_of, ibv), LIVE_PD, ENOENT))
		return;
	if (pd_of(ibv)->kind == PD_IMPORTED)
		pd_unimport(pd_of(ibv));
	abi_end();
}

EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *ibv, uint32_t handle)
{
	struct ibv_context *ctx = abi_enter_on(LIVE(pd_of, ibv), LIVE_PD, EINVAL);
	struct mr *mr;

	if (!ctx)
		return NULL;
	return abi_leave(mr_import(pd_of(ibv), handle, mr_is_here, ctx, &mr)) ? NULL
									      : &mr->ibv;
}

EXPORT void ibv_unimport_mr(struct ibv_mr *ibv)
{
	if (!abi_enter_on(LIVE(mr_of, ibv), LIVE_MR, ENOENT))
		return;
	if (mr_of(ibv)->imported)
		mr_unimport(mr_of(ibv));
	abi_end();
}

EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *ibv, uint32_t handle)
{
	struct dm *dm;

	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return NULL;
	return abi_leave(dm_import(ibv, abi_of(ibv)->ctx.core, handle, dm_is_here, &dm))
		       ? NULL
		       : &dm->ibv;
}

EXPORT void ibv_unimport_dm(struct ibv_dm *ibv)
{
	if (!abi_enter_on(LIVE(dm_of, ibv), LIVE_DM, ENOENT))
		return;
	if (dm_of(ibv)->of)
		dm_unimport(dm_of(ibv));
	abi_end();
}
