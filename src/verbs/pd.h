/* SPDX-License-Identifier: BSD-2-Clause */
/* pd.h - protection domains, and objects that refer to one: parent domains, whose
 * objects get their memory from the program (ibv_alloc_parent_domain(3)), and imported
 * PDs (ibv_import_pd(3)). Keys, QPs and address handles are compared by the real
 * ("proper") protection domain.
 */
#ifndef VERBS_PD_H
#define VERBS_PD_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "sys/list.h"
#include "sys/live.h"

struct core;
struct device;

/* A thread domain: the program promises that only one thread at a time uses the
 * objects in it. */
struct td {
	struct live live;
	struct ibv_td ibv;
	_Atomic unsigned users; /* parent domains that name it; EBUSY on free unless
				 * 0 */
};

struct pd {
	struct live live;
	struct ibv_pd ibv; /* the program's handle */
	struct core *core;
	struct list node;	/* in core->pd_list if PD_PROPER */
	_Atomic unsigned users; /* objects that name it; EBUSY on free unless 0 */
#define PD_LEFT (1u << 31)	/* imported: given up, but for users */
	enum pd_kind { PD_PROPER, PD_PARENT, PD_IMPORTED } kind;
	struct pd *of;				/* the proper PD it refers to; or
						 * NULL */
	struct td *td;				/* parent domain: its thread domain,
						 * or NULL */
	struct ibv_parent_domain_init_attr how; /* parent domain: its allocators */
};

struct pd *pd_of(struct ibv_pd *ibv);
struct td *td_of(struct ibv_td *ibv);

/* Returns the device of the PD's context; NULL in unit tests, which have none. */
const struct device *pd_device(const struct pd *pd);

static inline struct pd *pd_proper(struct pd *pd)
{
	return pd->of ? pd->of : pd;
}

int pd_alloc(struct core *core, struct ibv_context *ctx, struct pd **out);
/* Returns 0, -EBUSY, or -EINVAL for an imported PD. */
int pd_free(struct pd *pd);

/* Of a newer verbs.h: buffers may be memory that a confidential guest shares with its
 * host, where the device needs that. Ours does not. */
enum { PARENT_ALLOWS_CC_UNPROTECTED = 1 << 2 };

/* Does the program allocate the memory of pd's objects? */
static inline bool pd_has_allocators(const struct pd *pd)
{
	return pd && pd->how.comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
}

/* Makes a parent domain; attr's objects belong to ctx. -EINVAL: no PD, an unknown
 * comp_mask, or only one of the two allocators. */
int pd_parent(struct ibv_context *ctx, const struct ibv_parent_domain_init_attr *attr,
	      struct pd **out);
/* The context is closing: the program's allocators are called no more. */
void pd_forget_allocators(struct pd *pd);
int td_alloc(struct ibv_context *ctx, const struct ibv_td_init_attr *attr,
	     struct td **out);
int td_free(struct td *td); /* 0 or -EBUSY */

/* Finds the proper PD with this handle for which ok(pd, arg) is true, and counts one
 * use of it. Returns NULL if there is none. */
struct pd *pd_find(struct core *core, uint32_t handle,
		   bool (*ok)(const struct pd *pd, const void *arg), const void *arg);
/* Makes a PD object of ctx for `proper`; it takes over the use that pd_find() counted. */
int pd_import(struct ibv_context *ctx, struct pd *proper, struct pd **out);
/* Ends an imported PD; its memory stays while an object uses it. */
void pd_unimport(struct pd *pd);

/* Count an object that names pd in or out, both in pd and in its proper PD. */
void pd_use(struct pd *pd);
void pd_unuse(struct pd *pd);

#endif
