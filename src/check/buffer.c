/* SPDX-License-Identifier: BSD-2-Clause */
/* buffer.c - memory that the program changes while a request sends it: buffer-changed
 * (docs/dev/races.md).  check_wr.own[1] is a CRC of the bytes, and of where they are. */
#include <isa-l.h>

#include "check/check.h"
#include "check/heard.h"
#include "check/parts.h"
#include "check/placed.h"
#include "check/region.h"
#include "sys/guard.h"

enum {
	WHOLE = 64 << 10, /* of longer SGEs pieces are looked at */
	PIECE = 4 << 10,
	PIECES = WHOLE / PIECE,
	SHORT = 64, /* to copy an SGE out takes less than to arm the guard */
	WAITING = 4096,
};

#define TAKEN	(1ull << 32) /* own[1]: there is a CRC, in the lower half */
#define CHANGED (1ull << 63) /* own[1]: was found to be another */

static struct brief_lock lock;
/* Numbers of posts (heard.h): the newest when a message came in last, and the newest
 * that has a CRC. */
static _Atomic uint64_t heard, summed;
static atomic_bool lent; /* peers may write where regions let them */

static void raise_to(_Atomic uint64_t *number, uint64_t to)
{
	uint64_t was = atomic_load_explicit(number, memory_order_relaxed);

	while (was < to && !atomic_compare_exchange_weak(number, &was, to))
		;
}

static bool is_heard(const struct check_wr *w)
{
	return w->number <= atomic_load_explicit(&heard, memory_order_relaxed);
}

/* Is there a CRC that will be compared? If not, nothing has to be kept for it. */
static bool compares(void)
{
	return atomic_load_explicit(&summed, memory_order_relaxed) >
	       atomic_load_explicit(&heard, memory_order_relaxed);
}

static bool gathers_memory(const struct check_wr *w)
{
	switch (w->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return !(w->flags & IBV_SEND_INLINE);
	default:
		return false;
	}
}

/* Does it fill its SGEs? */
static bool scatters(const struct check_wr *w)
{
	return w->opcode == CHECK_RECV || w->opcode == IBV_WR_RDMA_READ ||
	       w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* --- the CRC ---------------------------------------------------------------- */

struct summing {
	const struct check_wr *w;
	uint64_t at[32]; /* of each SGE */
	uint32_t crc;
};

static void add_bytes(struct summing *s, uint64_t at, uint32_t n)
{
	s->crc = crc32_iscsi((unsigned char *)(uintptr_t)at, (int)n, s->crc);
}

static void add_all(void *arg)
{
	struct summing *s = arg;

	for (unsigned i = 0; i < s->w->num_sge; i++) {
		const uint32_t len = s->w->sge[i].length;

		if (len <= WHOLE) {
			add_bytes(s, s->at[i], len);
			continue;
		}
		for (unsigned p = 0; p < PIECES; p++)
			add_bytes(s,
				  s->at[i] + (uint64_t)(len - PIECE) * p / (PIECES - 1),
				  PIECE);
	}
}

static int add_short(struct summing *s)
{
	uint8_t copy[SHORT];
	const uint32_t len = s->w->sge->length;
	int rc = guard_copy(copy, (const void *)(uintptr_t)s->at[0], len);

	if (!rc)
		add_bytes(s, (uintptr_t)copy, len);
	return rc;
}

/* Returns own[1]: 0 if the memory cannot be looked at. */
static uint64_t sum(const struct check_wr *w)
{
	struct summing s;
	uint64_t place = 0;
	int rc;

	s.w = w;
	s.crc = 0;
	if (w->num_sge > sizeof(s.at) / sizeof(s.at[0]))
		return 0;
	for (unsigned i = 0; i < w->num_sge; i++) {
		const struct ibv_sge *g = &w->sge[i];

		s.at[i] = region_at(g->lkey, g->addr, g->length);
		if (g->length && !s.at[i])
			return 0;
		place = (place ^ s.at[i]) * 0x9e3779b97f4a7c15u;
	}
	guard_enter();
	rc = w->num_sge == 1 && w->sge->length <= SHORT ? add_short(&s)
							: guard_call(add_all, &s);
	guard_leave();
	return rc ? 0 : place >> 34 << 33 | TAKEN | s.crc;
}

/* --- may the NIC have written there? ---------------------------------------- */

struct excuse {
	const struct check_qp *held; /* its lock is held */
	const struct check_wr *w;
	bool found;
};

static bool same_bytes(const struct ibv_sge *a, const struct ibv_sge *b)
{
	const uint64_t at = region_at(a->lkey, a->addr, a->length),
		       bt = region_at(b->lkey, b->addr, b->length);

	if (!a->length || !b->length)
		return false;
	if (!at || !bt)
		return true; /* who knows */
	return at < bt ? bt - at < a->length : at - bt < b->length;
}

static bool fills(const struct check_wr *x, const struct check_wr *w)
{
	for (unsigned i = 0; i < x->num_sge; i++)
		for (unsigned j = 0; j < w->num_sge; j++)
			if (same_bytes(&x->sge[i], &w->sge[j]))
				return true;
	return false;
}

static void look_in(const struct check_queue *q, struct excuse *e)
{
	const struct check_wr *x;

	e->found |= q->unsure;
	check_for_each(x, q) e->found |= scatters(x) && fills(x, e->w);
}

static void look_in_both(const struct check_qp *qp, struct excuse *e)
{
	look_in(&qp->sq, e);
	look_in(&qp->rq, e);
}

static bool look_in_qp(struct check_object *o, void *arg)
{
	struct check_qp *qp = (struct check_qp *)o;
	struct excuse *e = arg;

	if (qp == e->held) {
		look_in_both(qp, e);
	} else if (brief_try(&qp->lock)) {
		look_in_both(qp, e);
		brief_give(&qp->lock);
	} else {
		e->found = true;
	}
	return !e->found;
}

static bool look_in_srq(struct check_object *o, void *arg)
{
	struct check_srq *srq = (struct check_srq *)o;
	struct excuse *e = arg;

	if (!brief_try(&srq->lock)) {
		e->found = true;
		return false;
	}
	look_in(&srq->rq, e);
	brief_give(&srq->lock);
	return !e->found;
}

/* What is outstanding comes first: what was completed meanwhile is among the ranges. */
static bool is_excused(const struct check_qp *qp, const struct check_wr *w)
{
	struct excuse e = { .held = qp, .w = w };

	check_each(LIVE_QP, look_in_qp, &e);
	if (!e.found)
		check_each(LIVE_SRQ, look_in_srq, &e);
	for (unsigned i = 0; i < w->num_sge && !e.found; i++) {
		const struct ibv_sge *g = &w->sge[i];
		const uint64_t at = region_at(g->lkey, g->addr, g->length);

		e.found = !at || placed_since(at, g->length, w->number) ||
			  (lent && region_is_open(at, g->length));
	}
	return e.found;
}

/* --- comparing ---------------------------------------------------------------- */

/* Were the bytes changed, and not by the NIC? */
static bool is_changed(const struct check_qp *qp, const struct check_wr *w)
{
	uint64_t now;

	if (qp->failed || qp->state == IBV_QPS_ERR)
		return false;
	now = sum(w);
	if (!now || now == w->own[1] || now >> 32 != w->own[1] >> 32)
		return false;
	heard_look(); /* after the look at the bytes */
	return !is_heard(w) && !is_excused(qp, w);
}

static void report_changed(const struct check_qp *qp, const struct check_wr *w)
{
	check_report_at(
		CHECK_BUFFER_CHANGED, w->trace, NULL, 0,
		"QP 0x%06x: the %u bytes of this %s, from 0x%llx on, were changed "
		"before its completion was polled, %.3f ms after the post: what "
		"the peer got is not certain (wr_id 0x%llx)",
		qp->qpn, w->length, check_opcode(w->opcode),
		(unsigned long long)w->sge->addr, (double)(check_now() - w->at) / 1e6,
		(unsigned long long)w->wr_id);
}

/* The request is complete. */
static void judge_request(const struct check_qp *qp, const struct check_wr *w)
{
	if (w->own[1] == CHANGED || (w->own[1] && !is_heard(w) && is_changed(qp, w)))
		report_changed(qp, w);
}

/* --- what waits to be compared -------------------------------------------------- */

/* Requests that were posted since something came in, a ring of the latest */
static struct waiting {
	struct check_qp *qp;
	uint64_t sum;
	uint32_t place; /* in qp->sq.wr */
} waiting[WAITING] GUARDED_BY(lock);
static uint32_t head GUARDED_BY(lock), tail GUARDED_BY(lock); /* free-running */

static void wait_for(struct check_qp *qp, const struct check_wr *w)
{
	brief_take(&lock);
	waiting[head++ % WAITING] =
		(struct waiting){ qp, w->own[1], (uint32_t)(w - qp->sq.wr) };
	if (head - tail > WAITING)
		tail++;
	brief_give(&lock);
}

static bool next_waiting(struct waiting *out)
{
	bool any;

	brief_take(&lock);
	any = head != tail;
	if (any)
		*out = waiting[tail++ % WAITING];
	brief_give(&lock);
	return any;
}

static void forget_waiting(const struct check_qp *qp)
{
	brief_take(&lock);
	for (uint32_t i = tail; i != head; i++)
		if (waiting[i % WAITING].qp == qp)
			waiting[i % WAITING].qp = NULL;
	brief_give(&lock);
}

/* Its lock is held. */
static void compare_waiting(const struct waiting *x)
{
	struct check_wr *w = x->qp->sq.wr ? &x->qp->sq.wr[x->place] : NULL;

	if (w && !w->gone && w->own[1] == x->sum)
		w->own[1] = is_changed(x->qp, w) ? CHANGED : 0;
}

/* Somebody has spoken, who may have got all that was posted before: from now on the
 * program may use those buffers again, so they are compared for the last time. held: the
 * queue pair whose lock the caller has, or NULL. */
static void hear(const struct check_qp *held)
{
	struct waiting x;

	if (!compares())
		return;
	while (next_waiting(&x)) {
		if (!x.qp)
			continue;
		if (x.qp == held) {
			compare_waiting(&x);
		} else if (brief_try(&x.qp->lock)) {
			compare_waiting(&x);
			brief_give(&x.qp->lock);
		}
	}
	raise_to(&heard, heard_newest());
}

/* It is too late to compare. */
static void spoke(uint64_t number, bool is_lent)
{
	brief_take(&lock);
	tail = head;
	brief_give(&lock);
	raise_to(&heard, number);
	if (is_lent)
		lent = true; /* it was, at the latest of two looks at once */
}

/* --- events ------------------------------------------------------------------ */

static void post(struct check_qp *qp, struct check_wr *w)
{
	if (!gathers_memory(w) || !w->length || qp->type == IBV_QPT_RAW_PACKET)
		return;
	raise_to(&summed, w->number); /* first: what is written meanwhile is kept */
	w->own[1] = sum(w);
	if (w->own[1])
		wait_for(qp, w);
}

static void note_filled(const struct check_wr *w)
{
	for (unsigned i = 0; i < w->num_sge && compares(); i++) {
		const struct ibv_sge *g = &w->sge[i];

		placed_add(region_at(g->lkey, g->addr, g->length), g->length,
			   heard_newest());
	}
}

static void reaped(struct check_qp *qp, struct check_wr *w)
{
	if (scatters(w))
		note_filled(w);
	else
		judge_request(qp, w);
}

/* The lock that is held is the queue's that w is in. What a receive has filled is of no
 * interest afterwards: hear() has compared for the last time what was posted before. */
static void complete(struct check_qp *qp, struct check_wr *w, const struct ibv_wc *wc)
{
	if (!w)
		placed_add(0, UINT64_MAX, heard_newest()); /* who knows */
	else if (w->opcode == CHECK_RECV)
		hear(qp->srq ? NULL : qp);
	else if (scatters(w))
		note_filled(w);
	else if (wc->status == IBV_WC_SUCCESS)
		judge_request(qp, w);
}

/* The program may poll memory, and so hear. */
static void wrote(const void *host, uint64_t len, bool done)
{
	if (!done)
		hear(NULL);
	/* Either post() has read these bytes, or this finds its number. */
	atomic_thread_fence(memory_order_seq_cst);
	if (done && compares())
		placed_add((uintptr_t)host, len, heard_newest());
	placed_now(!done);
}

static void gone(struct check_object *o)
{
	region_gone(o);
	if (o->kind == LIVE_QP)
		forget_waiting((struct check_qp *)o);
}

const struct check_part buffer_part = {
	.name = "buffer",
	.first = CHECK_BUFFER_CHANGED,
	.last = CHECK_BUFFER_CHANGED,
	.post = post,
	.complete = complete,
	.reaped = reaped,
	.wrote = wrote,
	.spoke = spoke,
	.made = region_made,
	.gone = gone,
};
