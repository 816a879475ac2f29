/* SPDX-License-Identifier: BSD-2-Clause */
/* srq.c - shared receive queues. */
#include <errno.h>
#include <stdlib.h>

#include "sys/inside.h"
#include "sys/log.h"
#include "verbs/await.h"
#include "verbs/core.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/like.h"
#include "verbs/mr.h"
#include "verbs/rq.h"
#include "verbs/srq_hooks.h"

struct srq *srq_of(struct ibv_srq *ibv)
{
	return container_of(ibv, struct srq, ibv);
}

/* Gives the SRQ a number. Returns 0, or -ENOMEM if max_srq exist. */
static int number_srq(struct core *core, struct srq *srq)
{
	int rc = -ENOMEM;
	uint32_t index;

	turn_take(&core->turn);
	if (numbers_count(&core->srqs) < caps.max_srq)
		rc = numbers_next(&core->srqs, &index);
	if (!rc) {
		srq->num = qpn_make(core->slot, index);
		numbers_add(&core->srqs, srq);
	}
	turn_give(&core->turn);
	return rc;
}

static void take_off(struct srq *srq)
{
	struct core *core = srq->core;

	turn_take(&core->turn);
	numbers_del(&core->srqs, qpn_index(srq->num));
	if (srq->hooks && srq->hooks->gone)
		srq->hooks->gone(srq);
	turn_give(&core->turn);
}

/* Counts the SRQ as a user of its PD and CQ (n is 1), or no longer (n is
 * (unsigned)-1). */
static void count_user(struct srq *srq, unsigned n)
{
	if (n == 1)
		pd_use(srq->in);
	else
		pd_unuse(srq->in);
	if (srq->cq)
		atomic_fetch_add(&srq->cq->users, n);
}

static int check_attr(const struct ibv_srq_attr *attr)
{
	char whose[LIKE_TEXT];

	if (like_lacks(LIKE_SRQ, "create_srq"))
		return -EOPNOTSUPP;
	if (attr->max_wr == 0 || attr->max_wr > caps.max_srq_wr ||
	    attr->max_sge > caps.max_srq_sge) {
		log_info("create_srq refused: %u entries of %u SGEs (limits %u, %u%s)",
			 attr->max_wr, attr->max_sge, caps.max_srq_wr, caps.max_srq_sge,
			 like_limit_text(LIKE_max_srq_sge, whose));
		return -EINVAL;
	}
	return 0;
}

static void fill_ibv(struct srq *srq, void *srq_context)
{
	struct ibv_srq *ibv = &srq->ibv;

	ibv->context = srq->ctx->ibv;
	ibv->srq_context = srq_context;
	ibv->pd = &srq->in->ibv;
	ibv->handle = srq->num;
	pthread_mutex_init(&ibv->mutex, NULL);
	pthread_cond_init(&ibv->cond, NULL);
}

int srq_create_kind(struct context *ctx, struct pd *pd, struct cq *cq,
		    const struct srq_hooks *hooks, const void *how,
		    struct ibv_srq_init_attr *attr, struct srq **out)
{
	struct srq *srq;
	int rc;

	if (ctx->dead)
		return -EIO;
	rc = check_attr(&attr->attr);
	if (rc)
		return rc;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	list_init(&srq->awaiting);
	srq->core = ctx->core;
	srq->ctx = ctx;
	srq->pd = pd_proper(pd);
	srq->in = pd;
	srq->cq = cq;
	rc = rq_init(&srq->rq, pd,
		     like_depth(LIKE_DEPTH_max_srq_wr, attr->attr.max_wr,
				caps.max_srq_wr),
		     attr->attr.max_sge);
	if (rc)
		goto free_srq;
	lock_init(&srq->lock);
	srq->hooks = hooks;
	rc = hooks ? hooks->open(srq, how) : 0;
	if (rc)
		goto free_rq;
	rc = number_srq(ctx->core, srq);
	if (rc)
		goto free_kind;
	fill_ibv(srq, attr->srq_context);
	count_user(srq, 1);
	attr->attr.max_wr = srq->rq.cap;
	attr->attr.max_sge = srq->rq.max_sge;
	live_add(&srq->live, LIVE_SRQ, ctx->ibv);
	*out = srq;
	return 0;

free_kind:
	if (hooks)
		hooks->close(srq);
free_rq:
	rq_fini(&srq->rq);
free_srq:
	free(srq);
	return rc;
}

int srq_create(struct context *ctx, struct pd *pd, struct ibv_srq_init_attr *attr,
	       struct srq **out)
{
	return srq_create_kind(ctx, pd, NULL, NULL, NULL, attr, out);
}

int srq_destroy(struct srq *srq)
{
	uint32_t users = (uint32_t)atomic_load(&srq->users);

	if (users) {
		log_info("SRQ 0x%06x is not destroyed: %u QPs use it", srq->num, users);
		return -EBUSY;
	}
	live_del(&srq->live);
	take_off(srq);
	/* The QPs of a plain SRQ took their entries along. */
	if (srq->cq)
		cq_disown(srq->cq, &srq->rq.returned);
	async_forget(srq->ctx, &srq->ibv);
	lock_take(&srq->lock); /* waits for a post in progress */
	rq_fini(&srq->rq);
	lock_give(&srq->lock);
	if (srq->hooks)
		srq->hooks->close(srq);
	count_user(srq, (unsigned)-1);
	pthread_cond_destroy(&srq->ibv.cond);
	pthread_mutex_destroy(&srq->ibv.mutex);
	context_free(srq->ctx, srq);
	return 0;
}

/* Returns the number of receives that are posted and not taken. */
static uint32_t waiting(struct srq *srq) REQUIRES(srq->lock)
{
	return srq_rq(srq)->head - srq_rq(srq)->tail;
}

/* Raises the limit event if fewer receives wait than the armed limit. */
static void look_at_limit(struct srq *srq) REQUIRES(srq->lock)
{
	if (waiting(srq) >= srq->limit)
		return;
	srq->limit = 0; /* IBTA 10.2.9.1: one event each time it is armed */
	async_raise(srq->ctx, IBV_EVENT_SRQ_LIMIT_REACHED, &srq->ibv);
}

static int refuse_modify(const struct srq *srq, const char *what, uint32_t value)
{
	log_info("SRQ 0x%06x: modify_srq refused: %s %u", srq->num, what, value);
	return -EINVAL;
}

int srq_modify(struct srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct rq other = { 0 };
	uint32_t cap, limit;
	int rc = 0;

	if (srq->ctx->dead)
		return -EIO;
	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return refuse_modify(srq, "attribute mask", (uint32_t)mask);
	if (mask & IBV_SRQ_MAX_WR) {
		if (attr->max_wr == 0 || attr->max_wr > caps.max_srq_wr)
			return refuse_modify(srq, "max_wr", attr->max_wr);
		rc = rq_init(&other, srq->in,
			     like_depth(LIKE_DEPTH_max_srq_wr, attr->max_wr,
					caps.max_srq_wr),
			     srq->rq.max_sge);
		if (rc)
			return rc;
	}
	lock_take(&srq->lock);
	cap = mask & IBV_SRQ_MAX_WR ? other.cap : srq_rq(srq)->cap;
	limit = mask & IBV_SRQ_LIMIT ? attr->srq_limit : srq->limit;
	if (limit > cap || rq_used(srq_rq(srq)) > cap) {
		rc = refuse_modify(
			srq,
			"the limit, or the number of occupied places, is above max_wr,",
			cap);
		goto unlock;
	}
	srq->limit = limit;
	if (mask & IBV_SRQ_MAX_WR) {
		rq_resize(srq_rq(srq), &other);
		attr->max_wr = cap;
	}
	if (mask & IBV_SRQ_LIMIT)
		look_at_limit(srq);
unlock:
	lock_give(&srq->lock);
	rq_fini(&other);
	return rc;
}

int srq_query(struct srq *srq, struct ibv_srq_attr *attr)
{
	if (srq->ctx->dead)
		return -EIO;
	lock_take(&srq->lock);
	attr->max_wr = srq_rq(srq)->cap;
	attr->max_sge = srq_rq(srq)->max_sge;
	attr->srq_limit = srq->limit;
	lock_give(&srq->lock);
	return 0;
}

int srq_post(struct srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	uint32_t places, max_sge;
	bool called = false;
	int rc = 0;

	if (!inside_take(&srq->lock)) {
		if (bad)
			*bad = wr;
		return -EDEADLK;
	}
	if (srq->ctx->dead)
		rc = -EIO;
	for (; !rc && wr; wr = wr->next) {
		rc = rq_post(srq_rq(srq), wr);
		if (rc)
			break;
	}
	if (!list_empty(&srq->awaiting))
		called = srq_call_awaiting(srq, waiting(srq));
	places = srq_rq(srq)->cap;
	max_sge = srq_rq(srq)->max_sge;
	lock_give(&srq->lock);
	if (rc == -ENOMEM)
		log_info("SRQ 0x%06x: post refused: it is full: a place returns when the "
			 "completion of its receive is polled (max_wr is %u)",
			 srq->num, places);
	else if (rc == -EIO)
		log_info("SRQ 0x%06x: post refused: its device is lost", srq->num);
	else if (rc)
		log_info("SRQ 0x%06x: post refused: num_sge is %d (max_sge is %u), or "
			 "sg_list is NULL",
			 srq->num, wr->num_sge, max_sge);
	if (rc && bad)
		*bad = wr;
	return rc ? rc : called;
}

bool srq_pop_locked(struct srq *srq, struct rwqe *out)
{
	bool got = rq_pop(srq_rq(srq), out);

	if (got)
		look_at_limit(srq);
	return got;
}

bool srq_pop_one(struct srq *srq, uint32_t len, uint64_t *wr_id, struct ibv_sge *sge)
{
	const struct ibv_sge *first;
	bool fits;

	lock_take(&srq->lock);
	first = rq_first(srq_rq(srq));
	fits = first && len <= first->length;
	if (fits) {
		*sge = *first;
		*wr_id = rq_take_first(srq_rq(srq));
		look_at_limit(srq);
	}
	lock_give(&srq->lock);
	return fits;
}

bool srq_pop(struct srq *srq, struct rwqe *out)
{
	bool got;

	lock_take(&srq->lock);
	got = srq_pop_locked(srq, out);
	lock_give(&srq->lock);
	return got;
}
