/* SPDX-License-Identifier: BSD-2-Clause */
/* await.c - see await.h. A QP that waits for its SRQ is in srq->awaiting, under
 * srq->lock: a thread that posts there cannot take the lock of a QP. */
#include "verbs/await.h"

#include "verbs/cq.h"
#include "verbs/due.h"
#include "verbs/timeout.h"

/* The wait goes on for a program that has to poll by MORE_NS at a time, up to MORE times
 * the longest wait, and once more when it has polled. */
enum { MORE_NS = 20000000, MORE = 4 };

static bool has_any(const struct rq *rq)
{
	return rq->head != rq->tail;
}

static void await_srq(struct qp *qp, struct srq *srq, bool again)
{
	lock_take(&srq->lock);
	/* A receive may have been posted since the message found none. */
	if (has_any(srq_rq(srq)))
		due_add(qp->core, qp);
	else if (list_empty(&qp->recv.node))
		list_add_tail(again ? srq->awaiting.next : &srq->awaiting,
			      &qp->recv.node);
	lock_give(&srq->lock);
}

void qp_await_recv(struct qp *qp, bool again)
{
	if (checks)
		checks->starves(qp->qpn);
	if (qp->srq)
		await_srq(qp, qp->srq, again);
	else
		qp->recv.awaited = true;
}

bool qp_awaits_recv(struct qp *qp)
{
	struct srq *srq = qp->srq;
	bool awaits;

	if (!srq)
		return qp->recv.awaited;
	lock_take(&srq->lock);
	awaits = !list_empty(&qp->recv.node);
	lock_give(&srq->lock);
	return awaits;
}

bool qp_has_recv(struct qp *qp)
{
	struct srq *srq = qp->srq;
	bool has;

	if (!srq)
		return has_any(&qp->rq);
	lock_take(&srq->lock);
	has = has_any(srq_rq(srq));
	lock_give(&srq->lock);
	return has;
}

uint64_t recv_wait_begin(struct recv_wait *w, const struct qp *qp, bool brief,
			 uint64_t now)
{
	const uint64_t most = qp->core->recv_wait_ns;
	uint64_t ns = ack_timeout_ns(qp) / 2;

	if (ns < RECV_WAIT_NS || brief)
		ns = RECV_WAIT_NS;
	ns = ns < most ? ns : most;
	*w = (struct recv_wait){ .until = now + ns, .since = now };
	return ns;
}

/* Do earlier completions lie in the program's CQ? Its thread has had no processor since
 * they came, or is busy. (A borrowed CQ may be gone.) */
static bool is_behind(const struct qp *qp)
{
	return qp_has_receives(qp) && !cq_empty(qp->recv_cq);
}

bool recv_wait_is_over(struct recv_wait *w, const struct qp *qp, bool brief, uint64_t now)
{
	const uint64_t ns = now - w->since;
	const bool was_behind = w->behind;

	if (now < w->until)
		return false;
	w->behind = is_behind(qp);
	if (!(w->behind || was_behind) || ns >= MORE * qp->core->recv_wait_ns ||
	    ns + MORE_NS > ack_timeout_ns(qp) / 2 || brief)
		return true;
	w->until = now + MORE_NS;
	return false;
}

void qp_await_no_recv(struct qp *qp)
{
	struct srq *srq = qp->srq;

	qp->recv.awaited = false;
	if (!srq)
		return;
	lock_take(&srq->lock);
	list_del(&qp->recv.node);
	lock_give(&srq->lock);
}

void qp_call_awaiting(struct qp *qp)
{
	qp->recv.awaited = false;
	due_add(qp->core, qp);
}

/* A QP that ends takes srq->lock to leave the list, so it lives until the lock is
 * given; it leaves core->due after that. */
bool srq_call_awaiting(struct srq *srq, uint32_t n)
{
	const bool any = !list_empty(&srq->awaiting);

	for (; n && !list_empty(&srq->awaiting); n--) {
		struct qp *qp = container_of(srq->awaiting.next, struct qp, recv.node);

		list_del(&qp->recv.node);
		due_add(qp->core, qp);
	}
	return any;
}
