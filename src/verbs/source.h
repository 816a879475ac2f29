/* SPDX-License-Identifier: BSD-2-Clause */
/* source.h - the source of a QP's requests: how far the send queue has been sent, and how
 * requests end (docs/dev/source.md).  Turn and qp->lock held.
 */
#ifndef VERBS_SOURCE_H
#define VERBS_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "verbs/flush.h"
#include "verbs/psn.h"
#include "verbs/qp.h"
#include "verbs/sgl.h"
#include "verbs/wr_op.h"

static inline bool wqe_is_atomic(const struct swqe *w)
{
	return WR_ATOMICS >> w->opcode & 1;
}

/* Is the request answered as a READ of 0 bytes is (annex A19)? */
static inline bool wqe_has_empty_answer(const struct swqe *w)
{
	return WR_EMPTIES >> w->opcode & 1;
}

/* Does the request get a response and not just an ACK? READs and atomics, whose
 * response data is placed in the SGEs, ATOMIC WRITE and FLUSH. */
static inline bool wqe_is_read(const struct swqe *w)
{
	return WR_ANSWERED >> w->opcode & 1;
}

/* A bind or an invalidation, for which nothing is sent. */
static inline bool wqe_is_local(const struct swqe *w)
{
	return WR_LOCALS >> w->opcode & 1;
}

/* The resolved SGEs of the work request at index; valid for one turn. */
struct wqe_memory {
	bool resolved;
	uint32_t index;
	struct span span; /* large: it is not cleared */
};
/* Resolves the SGEs unless they are resolved already. Returns 0, or -EACCES after
 * logging the reason. */
int wqe_resolve(struct qp *qp, uint32_t index, struct wqe_memory *m);

/* --- how far a source has sent ------------------------------------------------ */

/* A request takes numbers [psn, psn + npkts) when it begins.  They have 24 bits:
 *
 *   una ........... psn ............. max_psn
 *   |  sent, answer |  to be sent    | never sent yet
 *   |  outstanding  |  again         |
 *
 * Work requests [sq.tail, fresh) have numbers, [fresh, sq.head) have none yet; cur is
 * the work request that psn belongs to.  A transport that plans moves a copy. */
struct send_cursor {
	uint32_t psn, max_psn;
	uint32_t cur, fresh;
	uint32_t reads;	  /* READs and atomics that were sent; free-running */
	uint32_t unasked; /* parts that were sent since one asked for an ACK */
	int32_t burst;	  /* parts that may go out before an answer comes */
};

enum { NO_BURST = 0x7fffffff };
static_assert(IBV_WR_RDMA_WRITE_WITH_IMM < IBV_WR_SEND &&
		      IBV_WR_SEND_WITH_IMM == IBV_WR_SEND + 1,
	      "send_succeeds() knows WRITEs and SENDs by their order");

struct send_source {
	uint32_t una;
	/* READs and atomics [answered, cursor.reads) are outstanding, oldest first. */
	uint32_t answered;
	uint8_t retry_left, rnr_left;
	/* The work request at cur failed locally.  It completes with this status when it
	 * is the oldest. */
	bool failed;
	enum ibv_wc_status fail_status;
	enum verr fail_verr;
	uint64_t rnr_until; /* ns; nothing is sent before; 0: it may be */
};

/* Nothing is outstanding, and the next number is psn. */
void send_reset(const struct qp *qp, struct send_source *s, struct send_cursor *at,
		uint32_t psn);
/* The QP sends no more: nothing is outstanding, nor to be sent. */
void send_stop(const struct qp *qp, struct send_source *s, struct send_cursor *at);

/* Is there a request at the cursor, for a QP that sends? */
static inline bool send_any(const struct qp *qp, const struct send_source *s,
			    const struct send_cursor *at)
{
	return (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) &&
	       at->cur != qp->sq.head && !s->failed;
}

/* Has the request at the cursor numbers, so that a part of it may have been sent? */
static inline bool send_has_begun(const struct send_cursor *at)
{
	return at->cur != at->fresh;
}

/* What limits the requests of a transport. */
struct send_limits {
	uint32_t reads; /* READs and atomics outstanding */
	uint32_t bytes; /* of a message */
	bool drains;	/* in SQD, all that is posted is sent; else nothing new begins */
};

enum send_may {
	SEND_GO,
	SEND_WAIT,
	SEND_LOCAL,    /* nothing is sent for it: send_locally() */
	SEND_BAD_OP,   /* IBV_WC_LOC_QP_OP_ERR, VERR_LOCAL_OPERATION */
	SEND_TOO_LONG, /* IBV_WC_LOC_LEN_ERR, VERR_TOO_LONG */
};

/* May w begin, which is at the cursor and has not?  Its memory has not been looked at,
 * nor the limit of READs (send_may_read()). */
static inline enum send_may send_may(const struct qp *qp, const struct send_source *s,
				     const struct send_cursor *at, const struct swqe *w,
				     const struct send_limits *l)
{
	if (qp->state == IBV_QPS_SQD && !l->drains)
		return SEND_WAIT;
	/* C10-97: a fence waits for all earlier READs and atomics. */
	if (w->flags & IBV_SEND_FENCE && s->answered != at->reads)
		return SEND_WAIT;
	if (wqe_is_local(w))
		return SEND_LOCAL;
	if (wqe_is_read(w) && l->reads == 0)
		return SEND_BAD_OP;
	if (w->length > l->bytes || (wqe_is_atomic(w) && w->length < 8))
		return SEND_TOO_LONG;
	return SEND_GO;
}

/* May one more READ or atomic be sent? */
static inline bool send_may_read(const struct send_source *s,
				 const struct send_cursor *at,
				 const struct send_limits *l)
{
	return at->reads - s->answered < l->reads;
}

/* w, at the cursor, begins: it takes n numbers.  What is planned may be dropped: so this
 * writes anew each time what it changes of w. */
static inline void send_begin(struct send_cursor *at, struct swqe *w, uint32_t n)
{
	w->psn = at->psn;
	w->npkts = n;
	w->done = 0;
	at->fresh++;
}

/* The next n numbers of w, the request at the cursor, were sent. */
static inline void send_move(const struct send_source *s, struct send_cursor *at,
			     const struct swqe *w, uint32_t n)
{
	const bool first = at->psn == at->max_psn;

	at->psn = psn_add(at->psn, n);
	if (first || psn_off(at->psn, s->una) > psn_off(at->max_psn, s->una))
		at->max_psn = at->psn;
	if (psn_off(at->psn, w->psn) >= w->npkts)
		at->cur++;
}

/* The request at the cursor, which has no numbers, is done. */
static inline void send_skip(struct send_cursor *at)
{
	at->cur++;
	at->fresh++;
}

/* --- forward ------------------------------------------------------------------- */

/* What the peer has executed of the oldest request: numbers [from, from + n) of it. */
struct send_part {
	struct swqe *w;
	uint32_t from, n;
	bool missing; /* the answer to a READ or atomic has not come */
};

/* The peer has executed everything before number `to`: finds the next part of that.
 * Returns false if there is none, or if p->missing. */
static inline bool send_part(struct qp *qp, const struct send_source *s,
			     const struct send_cursor *at, uint32_t to,
			     struct send_part *p)
{
	const uint32_t left = psn_off(to, s->una);

	p->missing = false;
	if (left == 0 || qp->sq.tail == at->fresh)
		return false;
	p->w = sq_at(&qp->sq, qp->sq.tail);
	p->from = psn_off(s->una, p->w->psn);
	p->n = p->w->npkts - p->from;
	if (wqe_is_read(p->w) && p->n > p->w->done - p->from)
		p->n = p->w->done - p->from; /* done: answers that were placed */
	p->missing = p->n == 0;
	if (p->n > left)
		p->n = left;
	return !p->missing;
}

/* sq_complete() of w, the oldest request, which succeeded: without more ado if it is a
 * SEND or WRITE of the program, and the CQ takes it. */
static inline void send_succeeds(struct qp *qp, const struct swqe *w, uint64_t now)
	REQUIRES(qp->lock)
{
	const bool plain = w->opcode <= IBV_WR_SEND_WITH_IMM && !(w->flags & SWQE_OWN);
	struct cqe *to;

	if (plain && !(w->flags & IBV_SEND_SIGNALED)) {
		qp->sq.tail++;
		qp->sq.uncovered++;
		return;
	}
	to = plain ? cq_begin(qp->send_cq) : NULL;
	if (!to) {
		sq_complete(qp, IBV_WC_SUCCESS, VERR_NONE, now);
		return;
	}
	qp->sq.tail++;
	cqe_succeeds(to, w->wr_id, qp->qpn,
		     w->opcode >= IBV_WR_SEND ? IBV_WC_SEND : IBV_WC_RDMA_WRITE, 0, now);
	to->places = sq_cover(&qp->sq);
	to->queue = &qp->sq.returned;
	cq_end(qp->send_cq, false);
}

/* Moves una past the part, and completes the request if that was the rest of it.  Returns
 * false if the QP is in ERR now: its CQ was overrun. */
__attribute__((always_inline)) static inline bool send_took(struct qp *qp,
							    struct send_source *s,
							    const struct send_part *p,
							    uint64_t now)
	REQUIRES(qp->lock)
{
	s->una = psn_add(s->una, p->n);
	if (p->from + p->n < p->w->npkts)
		return true;
	send_succeeds(qp, p->w, now);
	return qp->state != IBV_QPS_ERR;
}

/* una has moved on from `start`.  Returns true if all that was sent is answered, also
 * what was to be sent again: then the cursor is at una. */
static inline bool send_caught_up(const struct qp *qp, const struct send_source *s,
				  struct send_cursor *at, uint32_t start)
{
	if (s->una != at->psn && psn_off(s->una, start) < psn_off(at->psn, start))
		return false;
	at->psn = s->una;
	at->cur = qp->sq.tail;
	return true;
}

/* The peer has executed something: all retries are there again. */
static inline void send_refill(const struct qp *qp, struct send_source *s)
{
	s->retry_left = qp->attr.retry_cnt;
	s->rnr_left = qp->attr.rnr_retry;
	s->rnr_until = 0;
}

/* --- back ----------------------------------------------------------------------- */

/* Sends again from psn on; una <= psn <= at->psn.  Returns false if the cursor is there
 * already. */
bool send_rewind(struct qp *qp, struct send_source *s, struct send_cursor *at,
		 uint32_t psn);
enum { RNR_FOREVER = 7 }; /* rnr_retry (IBTA 9.7.5.2.8) */
/* Use up a retry.  Return false if none was left. */
bool send_retry(struct send_source *s);
bool send_rnr_retry(const struct qp *qp, struct send_source *s);

/* --- ends ----------------------------------------------------------------------- */

enum send_end {
	END_WAITS,  /* older requests are still in the queue */
	END_DONE,   /* completed; the QP may be in ERR because the CQ is full */
	END_FAILED, /* failed as *status and *verr say */
};
/* Does the work of a bind or an invalidation, at the cursor.  It takes effect only after
 * all requests posted before it: those may have to be sent again and need their keys.
 * Only where nothing is planned. */
enum send_end send_locally(struct qp *qp, struct send_cursor *at,
			   enum ibv_wc_status *status, enum verr *verr, uint64_t now)
	REQUIRES(qp->lock);

/* The request at the cursor fails, once it is the oldest: send_fails(). */
static inline void send_refuse(struct send_source *s, enum ibv_wc_status status,
			       enum verr verr)
{
	s->failed = true;
	s->fail_status = status;
	s->fail_verr = verr;
}

/* Is it time to complete the request that was refused? */
static inline bool send_fails(const struct qp *qp, const struct send_source *s,
			      const struct send_cursor *at)
{
	return s->failed && at->cur == qp->sq.tail;
}

/* Completes the oldest request with an error.  The caller then fails the QP. */
void send_end(struct qp *qp, struct send_source *s, const struct send_cursor *at,
	      enum ibv_wc_status status, enum verr verr, uint64_t now) REQUIRES(qp->lock);

/* In SQD: is everything done that must be before the queue counts as drained? drains: as
 * in struct send_limits. */
static inline bool send_is_drained(const struct qp *qp, const struct send_cursor *at,
				   bool drains)
{
	return qp->state == IBV_QPS_SQD &&
	       qp->sq.tail == (drains ? qp->sq.head : at->fresh);
}

#endif
