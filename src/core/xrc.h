/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc.h - extended reliable connected transport: domains, and what a target QP borrows of
 * the SRQ that a request names (IBTA vol. 1, annex A14).  docs/xrc.md is its page.
 */
#ifndef CORE_XRC_H
#define CORE_XRC_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/target.h"
#include "sys/live.h"
#include "sys/lock.h"
#include "sys/turn.h"

struct context;
struct core;
struct qp;
struct srq;
struct xrc_domain;

struct xrcd {
	struct live live;
	struct ibv_xrcd ibv;
	struct core *core;
	struct xrc_domain *domain;
	_Atomic unsigned users; /* SRQs and target QPs: EBUSY */
};

/* What a domain is called among the processes of a host: the device and the inode. */
struct xrc_name {
	uint64_t guid;	 /* of the device */
	uint32_t number; /* its interface's; 0: it has none */
	uint32_t zero;
	uint64_t fs, inode;
};

struct xrcd *xrcd_of(struct ibv_xrcd *ibv);
/* False: it has no name, so it is of this process alone. */
bool xrcd_name(const struct xrcd *x, struct xrc_name *out);

/* A handle of the domain of attr->fd's inode, or of a new one that no other handle can
 * have (fd -1).  -EINVAL: both members are needed; or the domain exists, and O_EXCL.
 * -EAGAIN: it does not exist, and no O_CREAT.  -EBADF; -ENOMEM; -EIO. */
int xrcd_open(struct context *ctx, const struct ibv_xrcd_init_attr *attr,
	      struct xrcd **out);
/* 0 or -EBUSY. */
int xrcd_close(struct xrcd *x);
/* Another handle of the domain, which no program knows; NULL: no memory. */
struct xrcd *xrcd_second(const struct xrcd *x);
void xrcd_drop(struct xrcd *x) REQUIRES(x->core->turn);

/* A request for SRQ number srqn has come to a target QP, which borrows what it needs.
 * REFUSED_SRQ.  Turn and qp->lock held. */
enum refusal xrc_aim(struct qp *qp, uint32_t srqn);
/* The same for memory alone, whatever receive is under way. */
enum refusal xrc_reach(struct qp *qp, uint32_t srqn);
/* No target QP has borrowed anything of srq any more. */
void xrc_forget(struct core *core, const struct srq *srq) REQUIRES(core->turn);

/* A stand-in does here what requests want that have come to a target QP of another
 * process of the domain (ib/carry.c).  It has no context and is in no table.  Zeroes
 * become one that takes requests. */
void xrc_stand_in(struct core *core, struct qp *qp, struct xrcd *none)
	REQUIRES(core->turn);
/* ... and is one no more: a receive under way is flushed. */
void xrc_stand_down(struct core *core, struct qp *qp, uint64_t now) REQUIRES(core->turn);
/* As xrc_aim() and xrc_reach(), for SRQs of the domain that is called name. */
enum refusal xrc_aim_by_name(struct qp *qp, uint32_t srqn, const struct xrc_name *name);
struct srq *xrc_find(struct core *core, uint32_t srqn, const struct xrc_name *name)
	REQUIRES(core->turn);

#endif
