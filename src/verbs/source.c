/* SPDX-License-Identifier: BSD-2-Clause */
/* source.c - see source.h. */
#include "verbs/source.h"

#include "verbs/mr.h"

int wqe_resolve(struct qp *qp, uint32_t index, struct wqe_memory *m)
{
	int access = wqe_is_read(sq_at(&qp->sq, index)) ? IBV_ACCESS_LOCAL_WRITE : 0;
	int rc;

	if (m->resolved && m->index == index)
		return 0;
	rc = span_of_wqe(qp, index, access, &m->span);
	m->resolved = rc == 0;
	m->index = index;
	return rc;
}

/* --- how far a source has sent ------------------------------------------------ */

void send_reset(const struct qp *qp, struct send_source *s, struct send_cursor *at,
		uint32_t psn)
{
	psn &= PSN_MASK;
	*s = (struct send_source){
		.una = psn,
		.retry_left = qp->attr.retry_cnt,
		.rnr_left = qp->attr.rnr_retry,
	};
	*at = (struct send_cursor){
		.psn = psn,
		.max_psn = psn,
		.cur = qp->sq.tail,
		.fresh = qp->sq.tail,
		.burst = NO_BURST,
	};
}

void send_stop(const struct qp *qp, struct send_source *s, struct send_cursor *at)
{
	s->una = at->psn = at->max_psn;
	s->answered = at->reads;
	s->failed = false;
	s->rnr_until = 0;
	at->cur = at->fresh = qp->sq.head;
}

bool send_rewind(struct qp *qp, struct send_source *s, struct send_cursor *at,
		 uint32_t psn)
{
	struct sq *sq = &qp->sq;
	const uint32_t off = psn_off(psn, s->una);
	uint32_t i = at->cur;

	if (off >= psn_off(at->psn, s->una))
		return false;
	while (i != sq->tail &&
	       (i == at->fresh || psn_off(sq_at(sq, i)->psn, s->una) > off))
		i--;
	at->cur = i;
	at->psn = psn;
	s->failed = false; /* the failed one is tried again */
	return true;
}

/* --- retries -------------------------------------------------------------------- */

bool send_retry(struct send_source *s)
{
	if (s->retry_left == 0)
		return false;
	s->retry_left--;
	return true;
}

bool send_rnr_retry(const struct qp *qp, struct send_source *s)
{
	if (qp->attr.rnr_retry == RNR_FOREVER)
		return true;
	if (s->rnr_left == 0)
		return false;
	s->rnr_left--;
	return true;
}

/* --- ends ----------------------------------------------------------------------- */

enum send_end send_locally(struct qp *qp, struct send_cursor *at,
			   enum ibv_wc_status *status, enum verr *verr, uint64_t now)
{
	if (at->cur != qp->sq.tail)
		return END_WAITS;
	*status = mw_work(qp, sq_at(&qp->sq, at->cur), verr);
	if (*status != IBV_WC_SUCCESS)
		return END_FAILED;
	send_skip(at);
	sq_complete(qp, IBV_WC_SUCCESS, VERR_NONE, now);
	return END_DONE;
}

void send_end(struct qp *qp, struct send_source *s, const struct send_cursor *at,
	      enum ibv_wc_status status, enum verr verr, uint64_t now)
{
	const struct swqe *w = sq_at(&qp->sq, qp->sq.tail);
	const uint32_t una =
		qp->sq.tail != at->fresh ? psn_add(w->psn, w->npkts) : s->una;

	sq_complete(qp, status, verr, now); /* its line about a failure names una */
	s->una = una;
}
