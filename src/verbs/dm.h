/* SPDX-License-Identifier: BSD-2-Clause */
/* dm.h - device memory (ibv_alloc_dm(3)): memory of the adapter, which programs reach
 * by copying and by zero-based regions. Here it is memory of this process that the
 * program has no pointer to.
 */
#ifndef VERBS_DM_H
#define VERBS_DM_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/list.h"
#include "sys/live.h"

struct core;
struct mr;
struct pd;

enum { DM_ALIGN = 4 }; /* alignment of a copy's offset and length */

struct dm {
	struct live live;
	struct ibv_dm ibv; /* the program's handle; abi/ fills in its calls */
	struct core *core;
	struct list node; /* in core->dm_list; unused if imported */
	struct dm *of;	  /* imported: the original; else NULL */
	uint8_t *host;
	size_t length;		/* bytes, as requested */
	size_t occupied;	/* bytes, in whole pages */
	_Atomic unsigned users; /* regions and imports; EBUSY on free unless 0 */
};

struct dm *dm_of(struct ibv_dm *ibv);
/* Returns 0; -EINVAL if the length is 0 or above caps.max_dm, the alignment is above a
 * page or the call has extensions; -ENOMEM if caps.max_dm bytes are in use. */
int dm_alloc(struct core *core, struct ibv_context *ctx,
	     const struct ibv_alloc_dm_attr *attr, struct dm **out);
int dm_free(struct dm *dm); /* 0; -EBUSY; -EINVAL: imported */

/* Copy into and out of dm. Return 0, -EINVAL if not aligned to DM_ALIGN, -EFAULT if
 * past the end. */
int dm_write(struct dm *dm, uint64_t offset, const void *from, size_t length);
int dm_read(void *to, const struct dm *dm, uint64_t offset, size_t length);

/* Registers device memory; access must contain IBV_ACCESS_ZERO_BASED. */
int dm_reg(struct pd *pd, struct dm *dm, uint64_t offset, size_t length, int access,
	   struct mr **out);

/* Makes a second object of ctx for the dm with this handle for which ok(dm, ctx) is
 * true. Returns 0 or -ENOENT. */
int dm_import(struct ibv_context *ctx, struct core *core, uint32_t handle,
	      bool (*ok)(const struct dm *dm, const void *ctx), struct dm **out);
void dm_unimport(struct dm *dm);

#endif
