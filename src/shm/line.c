/* SPDX-License-Identifier: BSD-2-Clause */
/* line.c - the line of QPs that wait for room in a ring. */
#include "shm/peer.h"
#include "verbs/due.h"
#include "verbs/qp.h"

static struct peer_qp *first_of(const struct peer *p)
{
	return list_empty(&p->line) ? NULL
				    : container_of(p->line.next, struct peer_qp, wait);
}

/* Is it the QP's turn: is it the first in line, and has the ring room? */
static bool has_turn(const struct peer *p, const struct peer_qp *q)
{
	return p->open && first_of(p) == q;
}

/* Another QP is the first in line. */
static void call_first(struct peer *p)
{
	p->left = RING_SHARE;
	if (p->open && !list_empty(&p->line))
		due_add(p->l->core, first_of(p)->qp);
}

static uint32_t used(const struct peer *p)
{
	return ring_mark(&p->out.head) - p->turn_at;
}

bool line_lets(const struct peer *p, const struct peer_qp *q)
{
	if (list_empty(&p->line) || p->l->core->leaving)
		return true;
	return has_turn(p, q) && (p->line.next == p->line.prev || used(p) < p->left);
}

static void go_to_end(struct peer *p, struct peer_qp *q)
{
	list_del(&q->wait);
	list_add_tail(&p->line, &q->wait);
}

void line_wait(struct peer *p, struct peer_qp *q, bool full)
{
	if (list_empty(&p->line))
		p->left = RING_SHARE;
	if (!line_has(q) || (!full && has_turn(p, q)))
		go_to_end(p, q);
	if (full)
		p->open = false;
}

void line_open(struct peer *p)
{
	p->open = true;
	due_add(p->l->core, first_of(p)->qp);
}

void line_leave(struct peer *p, struct peer_qp *q)
{
	const bool was_first = first_of(p) == q;

	list_del(&q->wait);
	if (was_first)
		call_first(p);
}

bool line_begin(struct peer *p, struct peer_qp *q)
{
	if (!line_has(q))
		return false;
	if (p->l->core->leaving) { /* others may stay locked */
		line_leave(p, q);
		return false;
	}
	if (!has_turn(p, q))
		return false;
	p->turn_at = ring_mark(&p->out.head);
	return true;
}

void line_end(struct peer *p, struct peer_qp *q)
{
	const uint32_t n = used(p);

	if (first_of(p) != q) {
		call_first(p);
	} else if (p->open) { /* it has not asked for more */
		line_leave(p, q);
	} else { /* the ring is full; only a QP that is alone in line has had its share */
		p->left = n < p->left ? p->left - n : RING_SHARE;
	}
}
