/* SPDX-License-Identifier: BSD-2-Clause */
/* sends.c - the send queue is full: sq-overflow, sq-unsignaled. */
#include <errno.h>

#include "check/check.h"
#include "check/parts.h"
#include "check/queue.h"

/* Counts the signalled requests that were posted before that one. */
static unsigned count_signaled(const struct check_queue *q, const struct check_wr *before)
{
	struct check_wr *w;
	unsigned n = 0;

	check_for_each(w, q)
	{
		if (w == before)
			break;
		n += (w->flags & IBV_SEND_SIGNALED) != 0;
	}
	return n;
}

/* w is still in the queue, as one more than there are places for. */
static void refused(struct check_qp *qp, const struct check_wr *w, int rc)
{
	const struct check_queue *q = &qp->sq;
	const struct check_wr *oldest = check_wr_at(q, q->tail);
	const struct check_before before = { "the oldest of them was posted",
					     oldest->trace, oldest->at };
	unsigned signaled;

	if (rc != ENOMEM || w->opcode == CHECK_RECV || q->unsure)
		return;
	signaled = count_signaled(q, w);
	if (!signaled)
		check_report(CHECK_SQ_UNSIGNALED, &before, 1,
			     "QP 0x%06x: %s refused (ENOMEM), and all that follow will "
			     "be: none of the %u requests in the send queue is "
			     "signalled, so no completion can free a place (wr_id "
			     "0x%llx)",
			     qp->qpn, check_opcode(w->opcode), q->cap,
			     (unsigned long long)w->wr_id);
	else
		check_report(CHECK_SQ_OVERFLOW, &before, 1,
			     "QP 0x%06x: %s refused (ENOMEM): all %u places of the send "
			     "queue (max_send_wr) are held, %u by signalled requests; "
			     "poll the CQ for them first (wr_id 0x%llx)",
			     qp->qpn, check_opcode(w->opcode), q->cap, signaled,
			     (unsigned long long)w->wr_id);
}

const struct check_part sends_part = {
	.name = "sends",
	.first = CHECK_SQ_OVERFLOW,
	.last = CHECK_SQ_UNSIGNALED,
	.refused = refused,
};
