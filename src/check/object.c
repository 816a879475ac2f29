/* SPDX-License-Identifier: BSD-2-Clause */
/* object.c - see object.h. */
#include "check/object.h"

#include <stdlib.h>
#include <string.h>

#include "check/queue.h"
#include "check/tell.h"
#include "check/trace.h"
#include "verbs/cq.h"
#include "verbs/mr.h"
#include "verbs/qp.h"
#include "verbs/rq.h"

enum { CHAINS = 4096, RING = 2 * OBJECT_GONE };

static struct lock table_lock;
static struct check_object *chain[CHAINS] GUARDED_BY(table_lock);
static struct list living[LIVE_KINDS] GUARDED_BY(table_lock);
/* Of each kind: those that are gone, a ring, of which the latest OBJECT_GONE are in the
 * tables; and those that have left it, to be used again. */
static struct gone {
	struct check_object **ring; /* [RING] */
	uint64_t n;
	struct check_object *spare;
} gone[LIVE_KINDS] GUARDED_BY(table_lock);
static void *kept[OBJECT_GONE] GUARDED_BY(table_lock);
static uint32_t kept_n GUARDED_BY(table_lock);

static struct check_mr *keys[CHAINS] GUARDED_BY(table_lock);

/* Queue pairs, CQs and SRQs, by address and by number. */
static struct check_object *_Atomic queues[CHAINS];
static struct check_qp *_Atomic numbers[CHAINS];

static unsigned chain_of(const void *address)
{
	return (unsigned)(((uintptr_t)address >> 4) * 0x9e3779b97f4a7c15u >> 52) % CHAINS;
}

/* --- what an object is ------------------------------------------------------ */

static size_t size_of(enum live_kind kind)
{
	if (kind == LIVE_QP)
		return sizeof(struct check_qp);
	if (kind == LIVE_CQ)
		return sizeof(struct check_cq);
	if (kind == LIVE_SRQ)
		return sizeof(struct check_srq);
	if (kind == LIVE_MR)
		return sizeof(struct check_mr);
	return sizeof(struct check_object);
}

static struct check_object *find_held(const struct live *l, enum live_kind kind)
	REQUIRES(table_lock)
{
	struct check_object *o = chain[chain_of(l)];

	while (o && (o->live != l || o->kind != kind))
		o = o->next;
	return o;
}

static struct check_cq *cq_held(const struct cq *cq) REQUIRES(table_lock)
{
	return cq ? (struct check_cq *)find_held(&cq->live, LIVE_CQ) : NULL;
}

static void fill_qp(struct check_qp *c, struct qp *qp) REQUIRES(table_lock)
{
	const struct ibv_qp_cap *cap = &qp->init.cap;

	c->ibv = &qp->ex.qp_base;
	c->qpn = qp->qpn;
	c->type = qp->type;
	c->sig_all = qp->sig_all;
	c->cap = *cap;
	c->state = IBV_QPS_RESET;
	c->reset_at = c->o.made_at;
	c->send_cq = cq_held(qp->send_cq);
	c->recv_cq = cq_held(qp->recv_cq);
	if (qp->srq)
		c->srq = (struct check_srq *)find_held(&qp->srq->live, LIVE_SRQ);
	(void)check_queue_init(&c->sq, cap->max_send_wr, cap->max_send_sge);
	(void)check_queue_init(&c->rq, qp->srq ? 0 : cap->max_recv_wr, cap->max_recv_sge);
}

static void fill_mr(struct check_mr *c, const struct mr *mr)
{
	c->addr = (uintptr_t)mr->mkey.host;
	c->iova = mr->mkey.base;
	c->length = mr->mkey.length;
	c->access = mr->mkey.access;
	c->lkey = mr->ibv.lkey;
}

static struct check_mr **key_chain(uint32_t key) REQUIRES(table_lock)
{
	return &keys[key * 0x9e3779b1u >> 20];
}

static void show_key(struct check_mr *c) REQUIRES(table_lock)
{
	struct check_mr **head = key_chain(c->lkey);

	c->next_key = *head;
	*head = c;
}

static void hide_key(struct check_mr *c) REQUIRES(table_lock)
{
	struct check_mr **at = key_chain(c->lkey);

	while (*at && *at != c)
		at = &(*at)->next_key;
	if (*at)
		*at = c->next_key;
}

static void fill_object(struct check_object *o, struct live *l) REQUIRES(table_lock)
{
	if (o->kind == LIVE_QP) {
		fill_qp((struct check_qp *)o, container_of(l, struct qp, live));
	} else if (o->kind == LIVE_CQ) {
		((struct check_cq *)o)->ibv =
			(struct ibv_cq *)&container_of(l, struct cq, live)->ex;
	} else if (o->kind == LIVE_SRQ) {
		struct srq *srq = container_of(l, struct srq, live);
		struct check_srq *c = (struct check_srq *)o;

		c->ibv = &srq->ibv;
		(void)check_queue_init(&c->rq, srq->rq.cap, srq->rq.max_sge);
		/* Completions of XRC name a QP of any process. */
		c->rq.unsure = srq->hooks;
	} else if (o->kind == LIVE_MR) {
		fill_mr((struct check_mr *)o, container_of(l, struct mr, live));
		show_key((struct check_mr *)o);
	}
}

static bool is_queue(enum live_kind kind)
{
	return kind == LIVE_QP || kind == LIVE_CQ || kind == LIVE_SRQ;
}

/* From now on posts and polls find it. */
static void show_queue(struct check_object *o) REQUIRES(table_lock)
{
	struct check_object *_Atomic *head = &queues[chain_of(o->live)];

	if (o->kind == LIVE_QP) {
		struct check_qp *qp = (struct check_qp *)o;
		struct check_qp *_Atomic *at = &numbers[qp->qpn % CHAINS];

		qp->next_number = *at;
		atomic_store_explicit(at, qp, memory_order_release);
	}
	o->next_queue = *head;
	atomic_store_explicit(head, o, memory_order_release);
}

void object_leaves_srq(struct check_qp *qp, bool may_hold)
{
	const struct qp *own = container_of(qp->o.live, struct qp, live);

	if (!qp->srq)
		return;
	brief_take(&qp->srq->lock);
	if (may_hold || own->recv.srqs != qp->srq_reaped)
		check_queue_doubt(&qp->srq->rq);
	qp->srq_reaped = own->recv.srqs;
	brief_give(&qp->srq->lock);
}

/* The requests of an object that is gone are of no use. A thread that still posts to it
 * finds no room. */
static void free_queues(struct check_object *o)
{
	if (o->kind == LIVE_QP) {
		struct check_qp *qp = (struct check_qp *)o;

		brief_take(&qp->lock);
		check_queue_free(&qp->sq);
		check_queue_free(&qp->rq);
		qp->draft = NULL;
		brief_give(&qp->lock);
	} else if (o->kind == LIVE_SRQ) {
		struct check_srq *srq = (struct check_srq *)o;

		brief_take(&srq->lock);
		check_queue_free(&srq->rq);
		brief_give(&srq->lock);
	}
}

/* --- made and gone ---------------------------------------------------------- */

/* Returns one that is all 0, or NULL. */
static struct check_object *take_object(enum live_kind kind)
{
	struct check_object *o;

	lock_take(&table_lock);
	o = gone[kind].spare;
	if (o)
		gone[kind].spare = o->next;
	lock_give(&table_lock);
	return o ? memset(o, 0, size_of(kind)) : calloc(1, size_of(kind));
}

void object_made(struct live *l, enum live_kind kind)
{
	struct check_object *o = take_object(kind);
	struct check_object **head;

	if (!o)
		return;
	o->live = l;
	o->kind = kind;
	o->made = trace_now();
	o->made_at = check_now();
	o->inner = trace_is_inner(o->made);
	lock_take(&table_lock);
	fill_object(o, l);
	head = &chain[chain_of(l)];
	o->next = *head;
	*head = o;
	if (!living[kind].next)
		list_init(&living[kind]);
	list_add_tail(&living[kind], &o->living);
	if (is_queue(kind))
		show_queue(o);
	lock_give(&table_lock);
	TELL(made, o);
}

/* Threads may be in the chain: what leaves it still leads on. */
static void hide_queue(struct check_object *o) REQUIRES(table_lock)
{
	struct check_object *_Atomic *at = &queues[chain_of(o->live)];

	while (*at && *at != o)
		at = &(*at)->next_queue;
	if (*at)
		*at = o->next_queue;
	if (o->kind == LIVE_QP) {
		struct check_qp *qp = (struct check_qp *)o;
		struct check_qp *_Atomic *by = &numbers[qp->qpn % CHAINS];

		while (*by && *by != qp)
			by = &(*by)->next_number;
		if (*by)
			*by = qp->next_number;
	}
}

static void forget_object(struct check_object *o) REQUIRES(table_lock)
{
	struct check_object **at = &chain[chain_of(o->live)];

	while (*at && *at != o)
		at = &(*at)->next;
	if (*at)
		*at = o->next;
	if (is_queue(o->kind))
		hide_queue(o);
	if (o->kind == LIVE_MR)
		hide_key((struct check_mr *)o);
}

/* Puts the object among those that are gone, and forgets an older one. */
static void bury(struct check_object *o) REQUIRES(table_lock)
{
	struct gone *g = &gone[o->kind];
	struct check_object **at;

	list_del(&o->living);
	if (!g->ring)
		g->ring = calloc(RING, sizeof(struct check_object *));
	if (!g->ring)
		return;
	if (g->n >= OBJECT_GONE)
		forget_object(g->ring[(g->n - OBJECT_GONE) % RING]);
	at = &g->ring[g->n++ % RING];
	if (*at) {
		(*at)->next = g->spare;
		g->spare = *at;
	}
	*at = o;
}

void object_gone(const struct live *l, enum live_kind kind)
{
	struct check_object *o;

	lock_take(&table_lock);
	o = find_held(l, kind);
	if (o && !o->gone) {
		o->ended = trace_now();
		o->ended_at = check_now();
		o->gone = true;
		bury(o);
	} else {
		o = NULL;
	}
	lock_give(&table_lock);
	if (!o)
		return;
	if (kind == LIVE_QP)
		object_leaves_srq((struct check_qp *)o,
				  container_of(l, struct qp, live)->recv.held);
	TELL(gone, o);
	free_queues(o);
}

void object_changed(const struct live *l)
{
	struct check_object *o;

	lock_take(&table_lock);
	o = find_held(l, LIVE_MR);
	if (o && !o->gone) {
		hide_key((struct check_mr *)o);
		fill_mr((struct check_mr *)o, container_of(l, struct mr, live));
		show_key((struct check_mr *)o);
		o->made = trace_now();
		o->made_at = check_now();
	}
	lock_give(&table_lock);
}

void object_keep(void *memory)
{
	void *old;

	lock_take(&table_lock);
	old = kept[kept_n % OBJECT_GONE];
	kept[kept_n++ % OBJECT_GONE] = memory;
	lock_give(&table_lock);
	free(old);
}

/* --- looking up ------------------------------------------------------------- */

struct check_object *check_find(const struct live *l, enum live_kind kind)
{
	struct check_object *o;

	lock_take(&table_lock);
	o = find_held(l, kind);
	lock_give(&table_lock);
	return o;
}

/* Posts and polls look up at each call, without the lock: see object.h. */
static struct check_object *find_queue(const struct live *l, enum live_kind kind)
{
	struct check_object *o =
		atomic_load_explicit(&queues[chain_of(l)], memory_order_acquire);

	while (o && (o->live != l || o->kind != kind))
		o = o->next_queue;
	return o;
}

struct check_qp *object_qp(struct ibv_qp *ibv)
{
	return (struct check_qp *)find_queue(&qp_of(ibv)->live, LIVE_QP);
}

struct check_cq *object_cq(struct ibv_cq *ibv)
{
	return (struct check_cq *)find_queue(&cq_of(ibv)->live, LIVE_CQ);
}

struct check_srq *object_srq(struct ibv_srq *ibv)
{
	return (struct check_srq *)find_queue(&srq_of(ibv)->live, LIVE_SRQ);
}

struct check_qp *check_qp_of_number(uint32_t qpn)
{
	struct check_qp *qp =
		atomic_load_explicit(&numbers[qpn % CHAINS], memory_order_acquire);

	while (qp && qp->qpn != qpn)
		qp = qp->next_number;
	return qp;
}

struct check_mr *check_mr_of_key(uint32_t key)
{
	struct check_mr *mr;

	lock_take(&table_lock);
	mr = *key_chain(key);
	while (mr && mr->lkey != key)
		mr = mr->next_key;
	lock_give(&table_lock);
	return mr;
}

void check_each(enum live_kind kind, bool (*fn)(struct check_object *o, void *arg),
		void *arg)
{
	lock_take(&table_lock);
	if (living[kind].next)
		list_for(n, &living[kind])
		{
			if (!fn(container_of(n, struct check_object, living), arg))
				break;
		}
	lock_give(&table_lock);
}

struct listing {
	unsigned skip, n, most;
	struct check_object **o;
};

static bool add_listed(struct check_object *o, void *arg)
{
	struct listing *l = arg;

	if (l->skip)
		l->skip--;
	else
		l->o[l->n++] = o;
	return l->n < l->most;
}

unsigned check_list(enum live_kind kind, unsigned skip, struct check_object **o,
		    unsigned most)
{
	struct listing l = { .skip = skip, .most = most, .o = o };

	check_each(kind, add_listed, &l);
	return l.n;
}
