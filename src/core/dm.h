/* SPDX-License-Identifier: BSD-2-Clause */
/* dm.h - device memory: memory of the adapter, which programs reach by copying and
 * by regions whose addresses begin at 0 (ibv_alloc_dm(3)).  Here it is memory of this
 * process that the program has no pointer to.
 */
#ifndef CORE_DM_H
#define CORE_DM_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/list.h"
#include "sys/live.h"

struct core;

enum { DM_ALIGN = 4 }; /* of what is copied: offset and length */

struct dm {
	struct live live;
	struct ibv_dm ibv; /* what the program holds; abi/ fills the calls in */
	struct core *core;
	struct list node; /* core->dm_list; an imported one: none */
	struct dm *of;	  /* imported: which it stands for; or NULL */
	uint8_t *host;
	size_t length;		/* as asked for */
	size_t occupied;	/* whole pages */
	_Atomic unsigned users; /* regions, imports: EBUSY */
};

struct dm *dm_of(struct ibv_dm *ibv);
/* -EINVAL: no length, one above caps.max_dm, an alignment above a page's, an
 * extension; -ENOMEM: the memory that there is, caps.max_dm, is in use. */
int dm_alloc(struct core *core, struct ibv_context *ctx,
	     const struct ibv_alloc_dm_attr *attr, struct dm **out);
int dm_free(struct dm *dm); /* 0; -EBUSY; -EINVAL: an imported one */

/* Does that lie in it? */
bool dm_within(const struct dm *dm, uint64_t offset, size_t length);

/* 0; -EINVAL: not aligned; -EFAULT: past the end. */
int dm_write(struct dm *dm, uint64_t offset, const void *from, size_t length);
int dm_read(void *to, const struct dm *dm, uint64_t offset, size_t length);

/* A second name, ctx's, of that with this handle for which ok(dm, ctx) says yes.
 * -ENOENT. */
int dm_import(struct ibv_context *ctx, struct core *core, uint32_t handle,
	      bool (*ok)(const struct dm *dm, const void *ctx), struct dm **out);
void dm_unimport(struct dm *dm);

#endif
