/* SPDX-License-Identifier: BSD-2-Clause */
/* await.h - a message has come that finds no receive, and its QP waits for one
 * (ib/rnr.c). Whoever posts a receive makes the QP due. A post to a queue for which
 * nobody waits looks at one flag.
 */
#ifndef VERBS_AWAIT_H
#define VERBS_AWAIT_H

#include <stdbool.h>

#include "verbs/qp.h"
#include "verbs/rq.h"

/* The QP waits for a receive of its own queue, or of its SRQ. again: it has waited
 * before, and another QP took the receive, so it comes before those that wait. */
void qp_await_recv(struct qp *qp, bool again) REQUIRES(qp->lock);
/* Has nothing been posted for the QP since it began to wait? */
bool qp_awaits_recv(struct qp *qp) REQUIRES(qp->lock);
/* Could the QP take a receive now? */
bool qp_has_recv(struct qp *qp) REQUIRES(qp->lock);
/* The QP waits no more. */
void qp_await_no_recv(struct qp *qp) REQUIRES(qp->lock);

/* For those who post, to a QP that waits (qp->recv.awaited): it waits no more and is
 * due. */
void qp_call_awaiting(struct qp *qp) REQUIRES(qp->lock);
/* The same for the first n QPs that wait for the SRQ. Returns false if there is none. */
bool srq_call_awaiting(struct srq *srq, uint32_t n) REQUIRES(srq->lock);

#endif
