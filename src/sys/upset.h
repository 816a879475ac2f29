/* SPDX-License-Identifier: BSD-2-Clause */
/* upset.h - calls that fail because somebody has asked for it (driver/upset.h).  Control
 * calls ask here; posts and polls are other functions meanwhile, so they pay nothing when
 * nobody has asked. */
#ifndef SYS_UPSET_H
#define SYS_UPSET_H

#include <stdatomic.h>

struct context;
struct cq;
struct qp;

enum upset_call {
	UPSET_ALLOC_PD,
	UPSET_REG_MR,
	UPSET_CREATE_CQ,
	UPSET_CREATE_QP,
	UPSET_CREATE_SRQ,
	UPSET_POST_SEND,
	UPSET_POST_RECV,
	UPSET_CALLS
};

struct upset {
	int (*refuses)(enum upset_call call);
	void (*attach)(struct context *ctx);
	void (*attach_qp)(struct qp *qp);
	void (*attach_cq)(struct cq *cq);
};

/* NULL: nobody has asked. */
extern const struct upset *_Atomic upset;

/* Returns 0, or -errno: the call fails with it. */
static inline int upset_refuses(enum upset_call call)
{
	const struct upset *u = atomic_load_explicit(&upset, memory_order_acquire);

	return u ? u->refuses(call) : 0;
}

/* A context is new, and has its functions. */
static inline void upset_attach(struct context *ctx)
{
	const struct upset *u = atomic_load_explicit(&upset, memory_order_acquire);

	if (u)
		u->attach(ctx);
}

/* A QP has got the functions of ibv_wr_*, a CQ those of ibv_start_poll(). */
static inline void upset_attach_qp(struct qp *qp)
{
	const struct upset *u = atomic_load_explicit(&upset, memory_order_acquire);

	if (u)
		u->attach_qp(qp);
}

static inline void upset_attach_cq(struct cq *cq)
{
	const struct upset *u = atomic_load_explicit(&upset, memory_order_acquire);

	if (u)
		u->attach_cq(cq);
}

#endif
