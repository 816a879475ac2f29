/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc.h - extended reliable connected transport (IBTA vol. 1, annex A14): domains, and
 * what a target QP borrows from the SRQ that a request names. See docs/dev/xrc.md.
 */
#ifndef VERBS_XRC_H
#define VERBS_XRC_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/live.h"
#include "sys/lock.h"
#include "sys/turn.h"
#include "verbs/target.h"

struct context;
struct core;
struct cq;
struct pd;
struct qp;
struct srq;
struct xrc_domain;

struct xrcd {
	struct live live;
	struct ibv_xrcd ibv;
	struct core *core;
	struct xrc_domain *domain;
	_Atomic unsigned users; /* SRQs and target QPs; EBUSY on close unless 0 */
};

/* A domain's name among the processes of a host: the device and the inode. */
struct xrc_name {
	uint64_t guid;	 /* of the device */
	uint32_t number; /* the interface's index; 0: none */
	uint32_t zero;
	uint64_t fs, inode;
};

struct xrcd *xrcd_of(struct ibv_xrcd *ibv);
/* Gets the domain's name. False: it has none and is private to this process. */
bool xrcd_name(const struct xrcd *x, struct xrc_name *out);

/* Opens the domain of attr->fd's inode, or with fd -1 a new one that no other handle
 * shares. Returns 0; -EINVAL: a member of attr is missing, or O_EXCL and the domain
 * exists; -EAGAIN: no O_CREAT and it does not exist; -EBADF; -ENOMEM; -EIO. */
int xrcd_open(struct context *ctx, const struct ibv_xrcd_init_attr *attr,
	      struct xrcd **out);
/* Returns 0 or -EBUSY. */
int xrcd_close(struct xrcd *x);
/* Makes a handle of x's domain that no program knows; NULL: no memory. */
struct xrcd *xrcd_second(const struct xrcd *x);
void xrcd_drop(struct xrcd *x) REQUIRES(x->core->turn);

/* Makes an SRQ of a domain; its receives complete to cq. */
int srq_create_xrc(struct context *ctx, struct pd *pd, struct xrcd *xrcd, struct cq *cq,
		   struct ibv_srq_init_attr *attr, struct srq **out);

/* Of a target QP: verbs/qp_kind.h. */
void xrc_join(struct qp *qp, const struct ibv_qp_init_attr_ex *a);
void xrc_use(struct qp *qp, unsigned n);

/* A request for SRQ srqn has come to a target QP: borrows the SRQ's PD, CQ and
 * receives. REFUSED_SRQ. Turn and qp->lock held. */
enum refusal xrc_aim(struct qp *qp, uint32_t srqn);
/* xrc_aim() for memory only, for a request that needs no receive; a receive in
 * progress stays. */
enum refusal xrc_reach(struct qp *qp, uint32_t srqn);

/* Makes a zeroed qp a stand-in: it executes here the requests that came to a target QP
 * of another process of the domain (ib/carry.c). It has no context and is in no table. */
void xrc_stand_in(struct core *core, struct qp *qp, struct xrcd *none)
	REQUIRES(core->turn);
/* Ends a stand-in; a receive in progress is flushed. */
void xrc_stand_down(struct core *core, struct qp *qp, uint64_t now) REQUIRES(core->turn);
/* xrc_aim() for an SRQ of the domain with this name. */
enum refusal xrc_aim_by_name(struct qp *qp, uint32_t srqn, const struct xrc_name *name);
struct srq *xrc_find(struct core *core, uint32_t srqn, const struct xrc_name *name)
	REQUIRES(core->turn);

#endif
