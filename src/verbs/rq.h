/* SPDX-License-Identifier: BSD-2-Clause */
/* rq.h - receive queues: a QP's own, or shared (SRQ; IBTA vol. 1, 10.2.9). */
#ifndef VERBS_RQ_H
#define VERBS_RQ_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "sys/list.h"
#include "sys/lock.h"
#include "verbs/event.h"
#include "verbs/limits.h"

struct cq;
struct pd;
struct qp;
struct srq_hooks;

/* A receive taken off its queue, into which a message is scattered. */
struct rwqe {
	uint64_t wr_id;
	uint64_t length; /* bytes, all SGEs */
	unsigned num_sge;
	struct ibv_sge sge[SGE_MAX];
};

struct rq {
	struct pd *in;	       /* PD whose allocator gave the ring: verbs/ring.h */
	uint32_t size;	       /* power of two */
	uint32_t cap, max_sge; /* cap: places, as many as were asked for */
	uint32_t head, tail;   /* next to post, next to take; free-running */
	/* Places whose completions the program has, free-running: head - returned are
	 * occupied. Written as docs/dev/queues.md says. */
	_Atomic uint32_t returned;
	struct rwqe_head {
		uint64_t wr_id;
		uint32_t num_sge;
	} * wqe;
	struct ibv_sge *sge; /* [size * max_sge] */
};

/* Makes a queue of max_wr places of at least max_sge SGEs; rq->max_sge is what was
 * granted. Returns 0, -EINVAL or -ENOMEM. */
int rq_init(struct rq *rq, struct pd *in, uint32_t max_wr, uint32_t max_sge);
void rq_fini(struct rq *rq);
bool rq_pop(struct rq *rq, struct rwqe *out);
/* Gives rq the rings and the size of `by`, which is new and becomes what rq was; its
 * receives stay. by->cap is not below rq_used(). */
void rq_resize(struct rq *rq, struct rq *by);

/* Returns the number of occupied places: receives that wait, are being filled, or whose
 * completions the program does not have yet. */
static inline uint32_t rq_used(const struct rq *rq)
{
	return rq->head - atomic_load_explicit(&rq->returned, memory_order_relaxed);
}

/* Returns 0, -ENOMEM or -EINVAL. */
static inline int rq_post(struct rq *rq, const struct ibv_recv_wr *wr)
{
	uint32_t at = rq->head & (rq->size - 1);

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge ||
	    (wr->num_sge && !wr->sg_list))
		return -EINVAL;
	if (rq_used(rq) >= rq->cap)
		return -ENOMEM;
	rq->wqe[at].wr_id = wr->wr_id;
	rq->wqe[at].num_sge = (uint32_t)wr->num_sge;
	if (wr->num_sge)
		memcpy(&rq->sge[(size_t)at * rq->max_sge], wr->sg_list,
		       (size_t)wr->num_sge * sizeof(*wr->sg_list));
	rq->head++;
	return 0;
}

/* Returns the SGE of the oldest receive; NULL if it has not exactly one SGE or the
 * queue is empty. */
static inline const struct ibv_sge *rq_first(const struct rq *rq)
{
	uint32_t at = rq->tail & (rq->size - 1);

	return rq->head != rq->tail && rq->wqe[at].num_sge == 1
		       ? &rq->sge[(size_t)at * rq->max_sge]
		       : NULL;
}

/* Takes the receive that rq_first() returned; returns its wr_id. */
static inline uint64_t rq_take_first(struct rq *rq)
{
	return rq->wqe[rq->tail++ & (rq->size - 1)].wr_id;
}

struct srq {
	struct live live;
	struct ibv_srq ibv;
	struct core *core;
	struct context *ctx;
	struct pd *pd;	  /* proper */
	struct pd *in;	  /* the PD that the program named */
	struct lock lock; /* after qp->lock, before cq->lock */
	struct rq rq;
	uint32_t limit;	      /* 0: not armed */
	struct list awaiting; /* QPs that wait for a receive: verbs/await.h */
	uint32_t num;	      /* slot (10) | index in core->srqs (14) */
	_Atomic unsigned users;
	const struct srq_hooks *hooks; /* of a rare kind (verbs/srq_hooks.h); else NULL */
	void *kind;		       /* the hooks' own */
	struct cq *cq;		       /* with hooks: CQ of its receives; else NULL */
};

/* The SRQ's queue, by a function that makes clang check the lock. */
static inline struct rq *srq_rq(struct srq *srq) REQUIRES(srq->lock)
{
	return &srq->rq;
}

struct srq *srq_of(struct ibv_srq *ibv);
/* Raises attr to what was granted; ignores srq_limit. */
int srq_create(struct context *ctx, struct pd *pd, struct ibv_srq_init_attr *attr,
	       struct srq **out);
/* Makes an SRQ with hooks, for which hooks->open() gets `how`; its receives complete to
 * cq. */
int srq_create_kind(struct context *ctx, struct pd *pd, struct cq *cq,
		    const struct srq_hooks *hooks, const void *how,
		    struct ibv_srq_init_attr *attr, struct srq **out);
int srq_destroy(struct srq *srq); /* waits for acknowledged events; 0 or -EBUSY */
/* MAX_WR resizes and sets attr to what was granted (-EINVAL if below what is posted,
 * or below the limit); LIMIT arms the limit event once: it comes at once if fewer
 * receives wait already. */
int srq_modify(struct srq *srq, struct ibv_srq_attr *attr, int mask);
int srq_query(struct srq *srq, struct ibv_srq_attr *attr);
/* Returns 0; 1: messages waited for the receives, and their QPs are due; -errno. */
int srq_post(struct srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* Takes the oldest receive; raises IBV_EVENT_SRQ_LIMIT_REACHED when fewer than limit
 * remain. */
bool srq_pop(struct srq *srq, struct rwqe *out);
bool srq_pop_locked(struct srq *srq, struct rwqe *out) REQUIRES(srq->lock);
/* As srq_pop(), if the oldest receive has one SGE, of at least len bytes. */
bool srq_pop_one(struct srq *srq, uint32_t len, uint64_t *wr_id, struct ibv_sge *sge);

#endif
