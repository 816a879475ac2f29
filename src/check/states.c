/* SPDX-License-Identifier: BSD-2-Clause */
/* states.c - queue pairs in ERR, and at their end: post-in-error, flush-not-drained,
 * destroy-busy. */
#include "check/check.h"
#include "check/parts.h"
#include "check/queue.h"
#include "verbs/qp.h"

/* In ERR one request of each queue may mark the end of the flush. */
enum { MARKERS = 1 };

static bool is_connected(const struct check_qp *qp)
{
	return qp->type == IBV_QPT_RC || qp->type == IBV_QPT_UC;
}

static void unusual(struct check_qp *qp, struct check_srq *srq, struct check_wr *w)
{
	const bool set = qp && qp->state == IBV_QPS_ERR;
	const struct check_before before = { set ? "it was put into ERR"
						 : "it was set up",
					     qp ? qp->state_trace : 0,
					     qp ? qp->state_at : 0 };

	if (srq || !is_connected(qp) || (!set && !qp->failed))
		return;
	if (qp->late_posts[w->opcode == CHECK_RECV]++ < MARKERS)
		return;
	check_report(CHECK_POST_IN_ERROR, &before, 1,
		     "QP 0x%06x: %s posted (wr_id 0x%llx), though %s: it will only be "
		     "flushed",
		     qp->qpn, check_opcode(w->opcode), (unsigned long long)w->wr_id,
		     set ? "the program has put the queue pair into ERR"
			 : "a completion with an error has told that it is in ERR");
}

static void modified(struct check_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	(void)attr;
	if (mask & IBV_QP_STATE)
		qp->late_posts[0] = qp->late_posts[1] = 0;
}

static const struct check_wr *oldest_signaled(const struct check_queue *q, unsigned *n)
{
	const struct check_wr *first = NULL;
	struct check_wr *w;

	*n = 0;
	check_for_each(w, q)
	{
		if (!(w->flags & IBV_SEND_SIGNALED) || w->building)
			continue;
		if (!(*n)++)
			first = w;
	}
	return first;
}

static void look_at_flush(const struct check_qp *qp)
{
	const uint32_t n = check_queue_used(&qp->sq) + check_queue_used(&qp->rq);
	const struct check_before before = { "it was put into its state", qp->state_trace,
					     qp->state_at };

	if (n && !qp->sq.unsure && !qp->rq.unsure)
		check_report(
			CHECK_FLUSH_NOT_DRAINED, &before, 1,
			"QP 0x%06x is in ERR and is destroyed with %u requests whose "
			"completions were not polled",
			qp->qpn, n);
}

static void look_at_sends(const struct check_qp *qp)
{
	unsigned n;
	const struct check_wr *first = oldest_signaled(&qp->sq, &n);
	const struct check_before before = { "the oldest was posted",
					     first ? first->trace : 0,
					     first ? first->at : 0 };

	/* If all is done, and only not polled, nothing is lost. */
	if (first && !qp->sq.unsure && qp_of(qp->ibv)->sq.head != qp_of(qp->ibv)->sq.tail)
		check_report(CHECK_DESTROY_BUSY, &before, 1,
			     "QP 0x%06x is destroyed with %u signalled send requests "
			     "outstanding, the first a %s of wr_id 0x%llx",
			     qp->qpn, n, check_opcode(first->opcode),
			     (unsigned long long)first->wr_id);
}

static void destroys(struct check_object *o)
{
	struct check_qp *qp = (struct check_qp *)o;

	if (o->kind != LIVE_QP)
		return;
	brief_take(&qp->lock);
	if (qp->state == IBV_QPS_ERR || qp->failed)
		look_at_flush(qp);
	else
		look_at_sends(qp);
	brief_give(&qp->lock);
}

const struct check_part states_part = {
	.name = "states",
	.first = CHECK_POST_IN_ERROR,
	.last = CHECK_DESTROY_BUSY,
	.unusual = unusual,
	.modified = modified,
	.destroys = destroys,
};
