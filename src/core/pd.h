/* SPDX-License-Identifier: BSD-2-Clause */
/* pd.h - protection domains, and what stands for one: parent domains, whose objects
 * get their memory from the program (ibv_alloc_parent_domain(3)), and imported ones
 * (ibv_import_pd(3)).  Keys, QPs and address handles are compared by the protection
 * domain proper.
 */
#ifndef CORE_PD_H
#define CORE_PD_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "sys/list.h"
#include "sys/live.h"

struct core;

/* A promise of the program that one thread at a time uses what is in it. */
struct td {
	struct live live;
	struct ibv_td ibv;
	_Atomic unsigned users; /* parent domains: EBUSY */
};

struct pd {
	struct live live;
	struct ibv_pd ibv; /* what the program holds */
	struct core *core;
	struct list node;	/* core->pd_list; one that stands for another: none */
	_Atomic unsigned users; /* objects that name it: EBUSY */
#define PD_LEFT (1u << 31)	/* imported: given up, but for users */
	enum pd_kind { PD_PROPER, PD_PARENT, PD_IMPORTED } kind;
	struct pd *of;				/* which it stands for; or NULL */
	struct td *td;				/* parent domain: its; or NULL */
	struct ibv_parent_domain_init_attr how; /* parent domain: its allocators */
};

struct pd *pd_of(struct ibv_pd *ibv);
struct td *td_of(struct ibv_td *ibv);

static inline struct pd *pd_proper(struct pd *pd)
{
	return pd->of ? pd->of : pd;
}

int pd_alloc(struct core *core, struct ibv_context *ctx, struct pd **out);
/* 0; -EBUSY; -EINVAL: an imported one. */
int pd_free(struct pd *pd);

/* Does its memory come from the program? */
static inline bool pd_has_allocators(const struct pd *pd)
{
	return pd && pd->how.comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
}

/* attr's objects are ctx's.  -EINVAL: no PD, an extension, half an allocator. */
int pd_parent(struct ibv_context *ctx, const struct ibv_parent_domain_init_attr *attr,
	      struct pd **out);
/* Its context is being closed: the program is not called any more. */
void pd_forget_allocators(struct pd *pd);
int td_alloc(struct ibv_context *ctx, const struct ibv_td_init_attr *attr,
	     struct td **out);
int td_free(struct td *td); /* 0 or -EBUSY */

/* The protection domain proper with this handle for which ok(pd, arg) says yes, used
 * by one more; or NULL. */
struct pd *pd_find(struct core *core, uint32_t handle,
		   bool (*ok)(const struct pd *pd, const void *arg), const void *arg);
/* One more pd for ctx, which takes over that use. */
int pd_import(struct ibv_context *ctx, struct pd *proper, struct pd **out);
/* It exists no more; the memory stays while something uses it. */
void pd_unimport(struct pd *pd);

/* One more or one less object names pd, and with it the protection domain proper. */
void pd_use(struct pd *pd);
void pd_unuse(struct pd *pd);

#endif
