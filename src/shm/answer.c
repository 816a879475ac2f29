/* SPDX-License-Identifier: BSD-2-Clause */
/* answer.c - READs, atomics, ATOMIC WRITE and FLUSH at their source: where the answers
 * are to come, and how they are taken (docs/dev/shm.md, "Answers").
 *
 * The word says that a request was executed; then its answer is in its place. */
#include "shm/shm_qp.h"
#include "verbs/due.h"
#include "verbs/sgl.h"

static struct ask *ask_at(struct shm_qp *q, uint32_t i)
{
	return &q->src.asks.v[i % ASKS];
}

/* --- places ------------------------------------------------------------------ */

void ask_fed(struct shm_qp *q)
{
	struct list *starved = &q->peer->starved;

	if (!ask_is_starved(q))
		return;
	list_del(&q->starved);
	if (!list_empty(starved))
		due_add(q->qp->core,
			container_of(starved->next, struct shm_qp, starved)->qp);
}

static void feed_first(struct peer *p)
{
	if (!list_empty(&p->starved))
		due_add(p->l->core,
			container_of(p->starved.next, struct shm_qp, starved)->qp);
}

/* Reserves a place.  QPs get them one after the other. */
static int take_place(struct shm_qp *q, uint32_t len)
{
	struct peer *p = q->peer;
	int place = -1;

	if (list_empty(&p->starved) || p->starved.next == &q->starved) {
		place = reply_take(&p->replies, len);
		if (place < 0 && ring_look(&p->out)) {
			reply_gather(&p->replies, p->out.tail);
			place = reply_take(&p->replies, len);
		}
	}
	if (place < 0 && !ask_is_starved(q))
		list_add_tail(&p->starved, &q->starved);
	return place;
}

/* --- asking ------------------------------------------------------------------ */

struct ask *ask_find(struct shm_qp *q, uint32_t len)
{
	const uint32_t next = q->src.asks.next;
	struct ask *a = ask_at(q, next);
	int place = 0;

	if (next != q->src.asks.head)
		return a;
	if (next - q->src.asks.tail == ASKS)
		return NULL;
	if (len) {
		place = take_place(q, len);
		if (place < 0)
			return NULL;
	}
	a->number = q->src.at.psn;
	a->index = q->src.at.cur;
	a->len = len;
	a->place = (uint16_t)place;
	q->src.asks.head++;
	ask_fed(q);
	return a;
}

void ask_sent(struct shm_qp *q)
{
	q->src.asks.next++;
}

/* --- answers ----------------------------------------------------------------- */

static void give_place(struct shm_qp *q, const struct ask *a)
{
	struct peer *p = q->peer;

	if (!a->len)
		return;
	peer_lock(p);
	reply_give(&p->replies, a->place);
	peer_unlock(p);
	feed_first(p);
}

static int take_answer(struct shm_qp *q, const struct ask *a)
{
	const struct reply_room *r = &q->peer->replies;
	struct qp *qp = q->qp;

	if (!a->len)
		return 0;
	return scatter(qp, qp->pd, sq_sges(&qp->sq, a->index),
		       sq_at(&qp->sq, a->index)->num_sge,
		       (uint64_t)psn_off(a->number, sq_at(&qp->sq, a->index)->psn) *
			       RING_CHUNK,
		       reply_at(r->s, a->place, a->len), a->len);
}

uint32_t asks_hear(struct shm_qp *q, uint32_t to, int *rc)
{
	const uint32_t una = q->src.s.una;

	for (*rc = 0; q->src.asks.tail != q->src.asks.head; q->src.asks.tail++) {
		const struct ask *a = ask_at(q, q->src.asks.tail);

		if (psn_off(a->number, una) >= psn_off(to, una))
			break;
		*rc = take_answer(q, a);
		if (*rc)
			return a->number;
		sq_at(&q->qp->sq, a->index)->done++;
		q->src.s.answered += a->last;
		give_place(q, a);
	}
	return to;
}

/* The READs that are outstanding at the cursor are those that were answered, and the one
 * in whose middle it is. */
void asks_rewind(struct shm_qp *q)
{
	const struct sq *sq = &q->qp->sq;
	const struct swqe *w = &sq->wqe[sq->tail & (sq->size - 1)];

	q->src.asks.next = q->src.asks.tail;
	q->src.at.reads = q->src.s.answered;
	if (sq->tail != q->src.at.fresh && wqe_is_read(w) && q->src.s.una != w->psn)
		q->src.at.reads++;
	if (q->peer)
		ask_fed(q);
}

void asks_drop(struct shm_qp *q)
{
	struct peer *p = q->peer;

	if (!p)
		return;
	peer_lock(p);
	for (; q->src.asks.tail != q->src.asks.head; q->src.asks.tail++) {
		const struct ask *a = ask_at(q, q->src.asks.tail);

		if (a->len)
			reply_leave(&p->replies, a->place, q->src.written);
	}
	reply_gather(&p->replies, p->out.tail);
	peer_unlock(p);
	q->src.asks.next = q->src.asks.tail;
	ask_fed(q);
	feed_first(p);
}
