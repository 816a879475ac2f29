/* SPDX-License-Identifier: BSD-2-Clause */
/* cc.c - limits how much is in flight to a host: a window that all QPs to that host
 * share, sized for an unprivileged socket buffer there.  It grows additively and is
 * halved on loss and on a CNP.
 *
 * A QP that finds the window shut, or has used up its quantum, waits in a line.  Any QP
 * that frees room, or leaves its room unused, wakes the first in the line: so the line
 * moves while there is room, and each QP in it gets a share of the same size. */
#include <stdlib.h>
#include <string.h>

#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "verbs/due.h"

enum {
	STEP = 4096,	     /* growth for each window's worth of ACKs */
	CUT_GAP_NS = 500000, /* one loss event must not halve the window twice */
};

bool cc_is_of(const struct cc_host *h, const struct path *path)
{
	struct link_dest dest;

	path->link->ops->dest(&path->addr, &dest);
	return h->link == path->link && h->lid == dest.lid &&
	       memcmp(h->gid, dest.gid, sizeof(h->gid)) == 0;
}

struct cc_host *cc_get(struct ib *ib, const struct path *path)
{
	struct link_dest dest;
	struct cc_host *h;

	list_for(n, &ib->hosts)
	{
		h = container_of(n, struct cc_host, node);
		if (cc_is_of(h, path)) {
			h->users++;
			return h;
		}
	}
	h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	path->link->ops->dest(&path->addr, &dest);
	memcpy(h->gid, dest.gid, sizeof(h->gid));
	h->lid = dest.lid;
	h->link = path->link;
	h->users = 1;
	h->window = CC_WINDOW_MAX;
	list_init(&h->waiting);
	list_add_tail(&ib->hosts, &h->node);
	return h;
}

void cc_put(struct cc_host *h)
{
	if (--h->users > 0)
		return;
	list_del(&h->node);
	free(h);
}

static uint32_t room(const struct cc_host *h)
{
	uint32_t used = h->flight + h->planned + h->promised;

	return used < h->window ? h->window - used : 0;
}

/* A READ may cost more than a small window holds, so room for half of the window is
 * enough. */
static bool fits_window(const struct cc_host *h, uint32_t cost)
{
	uint32_t need = cost < h->window / 2 ? cost : h->window / 2;

	return need <= room(h);
}

/* What a QP may send before it goes to the end of the line, and what it waits for there:
 * otherwise it would send a few packets for each ACK, and not a run. */
static uint32_t quantum(const struct cc_host *h)
{
	return h->window / 2 < CC_BURST ? h->window / 2 : CC_BURST;
}

/* Where two bursts have no room, none follows one whose end is lost, and nothing would
 * tell of it: so the second half of the window asks packet by packet. */
bool cc_must_ask(const struct ib_qp *q, uint32_t cost)
{
	const struct cc_host *h = q->host;

	return h->window < 2 * CC_BURST && room(h) <= h->window / 2 + cost;
}

/* A QP whose quantum is used up begins another one at once if no QP waits, so that its
 * packets leave in long runs. */
static bool has_quantum(struct ib_qp *q)
{
	const struct cc_host *h = q->host;

	if (q->req.quantum <= q->req.planned && list_empty(&h->waiting) &&
	    h->promised == 0)
		q->req.quantum = q->req.planned + quantum(h);
	return q->req.quantum > q->req.planned;
}

/* Does q wait in a line that moves?  All that it has sent may be acknowledged at once,
 * and then it must not pass those before it. */
static bool must_wait(const struct ib_qp *q)
{
	return !list_empty(&q->cc_node) && q->ib->now - q->host->moved_at < CC_STILL_NS;
}

bool cc_admit(struct ib_qp *q, uint32_t cost)
{
	struct cc_host *h = q->host;

	if (q->req.flight + q->req.planned == 0 && !must_wait(q)) {
		if (list_empty(&h->waiting) && h->promised == 0)
			q->req.quantum = quantum(h);
		return true;
	}
	if (!list_empty(&q->cc_node))
		return false;
	if (has_quantum(q) && fits_window(h, cost))
		return true;
	q->req.want = cost > quantum(h) ? cost : quantum(h);
	list_add_tail(&h->waiting, &q->cc_node);
	return false;
}

void cc_wake(struct cc_host *h)
{
	struct ib_qp *q;

	if (list_empty(&h->waiting))
		return;
	q = container_of(h->waiting.next, struct ib_qp, cc_node);
	if (!fits_window(h, q->req.want))
		return;
	list_del(&q->cc_node);
	h->moved_at = q->ib->now;
	q->req.quantum = q->req.promised = quantum(h);
	q->req.called = true;
	h->promised += q->req.promised;
	due_add(q->qp->core, q->qp);
}

void cc_answer(struct ib_qp *q)
{
	if (!q->req.called)
		return;
	q->req.called = false;
	q->host->promised -= q->req.promised;
}

void cc_plan(struct ib_qp *q, uint32_t cost)
{
	q->req.planned += cost;
	q->host->planned += cost;
	list_del(&q->cc_node);
}

void cc_sent(struct ib_qp *q, uint32_t cost)
{
	q->req.planned -= cost;
	q->host->planned -= cost;
	q->req.flight += cost;
	q->host->flight += cost;
	q->req.quantum -= cost < q->req.quantum ? cost : q->req.quantum;
}

void cc_unplan(struct ib_qp *q)
{
	q->host->planned -= q->req.planned;
	q->req.planned = 0;
}

void cc_acked(struct ib_qp *q, uint32_t cost)
{
	struct cc_host *h = q->host;

	q->req.flight -= cost;
	h->flight -= cost;
	h->grown += cost;
	if (h->grown >= h->window) {
		h->grown = 0;
		h->window += STEP;
		if (h->window > CC_WINDOW_MAX)
			h->window = CC_WINDOW_MAX;
	}
	cc_wake(h);
}

void cc_forget(struct ib_qp *q, uint32_t flight)
{
	struct cc_host *h = q->host;

	h->flight -= q->req.flight - flight;
	q->req.flight = flight;
	cc_wake(h);
}

void cc_cut(struct cc_host *h, uint64_t now)
{
	if (now - h->cut_at < CUT_GAP_NS && h->cut_at != 0)
		return;
	h->cut_at = now;
	h->grown = 0;
	h->window /= 2;
	if (h->window < CC_WINDOW_MIN)
		h->window = CC_WINDOW_MIN;
}

void cc_leave(struct ib_qp *q)
{
	if (!q->host)
		return;
	list_del(&q->cc_node);
	cc_answer(q);
	cc_unplan(q);
	cc_forget(q, 0);
}
