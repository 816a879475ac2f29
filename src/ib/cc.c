/* SPDX-License-Identifier: BSD-2-Clause */
/* cc.c - how much may be on its way to a host: a window that all QPs to it
 * share, sized for an unprivileged socket buffer there.  Additive increase,
 * halved on loss and on a CNP.
 *
 * A QP that finds the window shut waits in a line.  Whoever makes room, or
 * leaves room unused, wakes the first: so the line moves while there is room,
 * and each in it gets a share of the same size.
 */
#include <stdlib.h>
#include <string.h>

#include "core/due.h"
#include "ib/ib_qp.h"

enum {
	STEP = 4096,			/* growth for a window's worth of ACKs */
	CUT_GAP_NS = 500000,		/* one loss event is not counted twice */
};

struct cc_host *cc_get(struct ib *ib, const uint8_t ip[16])
{
	struct cc_host *h;

	list_for(n, &ib->hosts) {
		h = container_of(n, struct cc_host, node);
		if (memcmp(h->ip, ip, 16) == 0) {
			h->users++;
			return h;
		}
	}
	h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	memcpy(h->ip, ip, 16);
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

uint32_t cc_room(const struct ib_qp *q)
{
	const struct cc_host *h = q->host;

	return h->flight < h->window ? h->window - h->flight : 0;
}

bool cc_admit(struct ib_qp *q, uint32_t cost)
{
	if (q->req.flight == 0 || cost <= cc_room(q))
		return true;
	if (list_empty(&q->qp->cc_node))
		list_add_tail(&q->host->waiting, &q->qp->cc_node);
	return false;
}

void cc_wake(struct cc_host *h)
{
	struct qp *qp;

	if (list_empty(&h->waiting) || h->flight >= h->window)
		return;
	qp = container_of(h->waiting.next, struct qp, cc_node);
	list_del(&qp->cc_node);
	due_add(qp->core, qp);
}

void cc_sent(struct ib_qp *q, uint32_t cost)
{
	q->req.flight += cost;
	q->host->flight += cost;
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
	list_del(&q->qp->cc_node);
	cc_forget(q, 0);
}
