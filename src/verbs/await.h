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

/* How long a message waits for its receive at least, and at most (core->recv_wait_ns). */
enum { RECV_WAIT_NS = 2000000, RECV_WAIT_MOST_NS = 120000000 };

/* A message waits for a receive. */
struct recv_wait {
	uint64_t until; /* ns; then the peer is told RNR; 0: no message waits */
	uint64_t since; /* ns; when it came */
	bool behind;	/* when `until` was set last, the program had to poll */
};

/* The QP waits for a receive of its own queue, or of its SRQ. again: it has waited
 * before, and another QP took the receive, so it comes before those that wait. */
void qp_await_recv(struct qp *qp, bool again) REQUIRES(qp->lock);
/* Has nothing been posted for the QP since it began to wait? */
bool qp_awaits_recv(struct qp *qp) REQUIRES(qp->lock);
/* Could the QP take a receive now? */
bool qp_has_recv(struct qp *qp) REQUIRES(qp->lock);
/* The QP waits no more. */
void qp_await_no_recv(struct qp *qp) REQUIRES(qp->lock);

/* A message begins to wait. It waits for half of the QP's own ACK timeout: the peer's is
 * as long as a rule, and must not expire meanwhile. brief: the peer has heard RNR for the
 * message and comes again, so RECV_WAIT_NS is enough. Returns the ns. */
uint64_t recv_wait_begin(struct recv_wait *w, const struct qp *qp, bool brief,
			 uint64_t now);
/* Is the time up? A program that has not polled what came before may not know that it
 * has to post, so the wait goes on for it, for a bounded time, unless it is brief. */
bool recv_wait_is_over(struct recv_wait *w, const struct qp *qp, bool brief, uint64_t now)
	REQUIRES(qp->lock);

/* For those who post, to a QP that waits (qp->recv.awaited): it waits no more and is
 * due. */
void qp_call_awaiting(struct qp *qp) REQUIRES(qp->lock);
/* The same for the first n QPs that wait for the SRQ. Returns false if there is none. */
bool srq_call_awaiting(struct srq *srq, uint32_t n) REQUIRES(srq->lock);

#endif
