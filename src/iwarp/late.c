/* SPDX-License-Identifier: BSD-2-Clause */
/* late.c - a message that finds no receive waits for one (docs/dev/iwarp.md).
 *
 * Its first FPDU waits in the stash, the bytes that were received behind it in memory of
 * the QP's own, and what follows them in the socket: the QP takes no bytes until the
 * message has its receive, and TCP slows the peer down. */
#include <string.h>

#include "iwarp/iw_qp.h"
#include "sys/addr.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "verbs/await.h"
#include "verbs/due.h"

static bool may_wait(const struct iw_qp *q)
{
	return q->life == LIFE_OPEN && q->qp->state == IBV_QPS_RTS && q->iw->late_ns > 0;
}

static void begin_wait(struct iw_qp *q, uint64_t now)
{
	struct iw_late *l = &q->late;
	char peer[INET6_ADDRSTRLEN];

	if (!l->told)
		log_info("QP 0x%06x to %s, port %u: a message from the peer finds no "
			 "receive; it waits %u ms for one before the connection is "
			 "terminated",
			 q->qp->qpn, addr_text(q->p.peer, peer), q->p.peer_port,
			 (unsigned)(q->iw->late_ns / 1000000));
	l->told = true;
	l->until = now + q->iw->late_ns;
	l->msn = q->msn[0];
}

bool iw_late(struct iw_qp *q, uint64_t now)
{
	struct iw_late *l = &q->late;
	bool again = l->until && l->msn == q->msn[0];

	qp_is_held(q->qp);
	if (!may_wait(q) || (again && now >= l->until))
		return false;
	if (!again)
		begin_wait(q, now);
	qp_await_recv(q->qp, again);
	l->waits = true;
	if (!l->paused)
		q->iw->ops->paused(q->iw->arg, q->qp, q->stream, true);
	l->paused = true;
	due_add(q->qp->core, q->qp); /* sets the timer */
	return true;
}

void iw_late_keep(struct iw_qp *q, const uint8_t *at, size_t n)
{
	struct iw_late *l = &q->late;

	if (l->kept) { /* `at` is in it */
		l->at = l->end - (uint32_t)n;
		return;
	}
	if (n == 0)
		return;
	l->kept = turn_alloc(n);
	if (!l->kept) {
		l->until = 1; /* the time is up */
		return;
	}
	memcpy(l->kept, at, n);
	l->at = 0;
	l->end = (uint32_t)n;
}

void iw_late_run(struct iw_qp *q, uint64_t now)
{
	struct iw_late *l = &q->late;

	qp_is_held(q->qp);
	if (!l->waits || (qp_awaits_recv(q->qp) && now < l->until && may_wait(q)))
		return;
	l->waits = false;
	iw_take_in(q, l->kept ? l->kept + l->at : q->iw->in, l->end - l->at, now);
	if (l->waits)
		return;
	iw_late_end(q);
	iw_late_forget(q);
}

void iw_late_end(struct iw_qp *q)
{
	struct iw_late *l = &q->late;

	qp_is_held(q->qp);
	if (!l->paused)
		return;
	l->waits = l->paused = false;
	l->until = 0;
	qp_await_no_recv(q->qp);
	q->iw->ops->paused(q->iw->arg, q->qp, q->stream, false);
}

void iw_late_forget(struct iw_qp *q)
{
	struct iw_late *l = &q->late;

	turn_free(l->kept);
	l->kept = NULL;
	l->at = l->end = 0;
}
