/* SPDX-License-Identifier: BSD-2-Clause */
/* tx.c - a plan of FPDUs from where the QP stands, and what the stream took of
 * it. */
#include <assert.h>
#include <string.h>

#include "iwarp/iw_qp.h"
#include "sys/guard.h"
#include "sys/log.h"

/* --- planning ------------------------------------------------------------------ */

/* What goes first: a Terminate is the last there is; what is owed before what
 * is asked for, or two peers could wait for each other. */
static enum step next_segment(struct iw_qp *q, struct iw_cursor *c, struct seg *s,
			      struct work *work, uint64_t now)
{
	enum step step;

	memset(s, 0, offsetof(struct seg, body));
	s->body_len = s->len = s->off = 0;
	s->span = NULL;
	s->ddp.version = DDP_VERSION;
	if (c->term_due)
		return iw_term_next(q, c, s);
	if (q->life != LIFE_OPEN || q->hold)
		return STEP_WAIT;
	step = iw_rsp_next(q, c, s, work, now);
	return step == STEP_WAIT ? iw_req_next(q, c, s, work, now) : step;
}

static void no_plan(struct iw_qp *q)
{
	struct iwarp *iw = q->iw;

	iw->owner = q->qp;
	iw->plans = iw->pieces = 0;
	iw->arena_used = 0;
	iw->piece_open = false;
}

/* Memory that a segment is of is gone.  What is planned before it goes first:
 * then it is at the cursor. */
static void fault(struct iw_qp *q, const struct iw_cursor *c, uint64_t now)
{
	if (q->iw->plans)
		return;
	if (c->owed != q->c.owed || c->owed_off != q->c.owed_off)
		iw_terminate(q, TERM_RDMAP_LOCAL, NULL, 0, NULL,
			     IBV_EVENT_QP_ACCESS_ERR, now);
	else
		iw_req_error(q, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_FAULT, now);
}

static void plan(struct iw_qp *q, uint64_t now)
{
	struct iw_cursor c = q->c, before;
	struct work work;
	uint32_t bytes = 0;
	struct seg s;

	work.resolved = false;			/* the rest is large */
	while (bytes < q->budget) {
		before = c;
		switch (next_segment(q, &c, &s, &work, now)) {
		case STEP_AGAIN:
			continue;
		case STEP_WAIT: case STEP_STOP:
			return;
		case STEP_SEG:
			break;
		}
		switch (iw_fpdu_put(q, &s, &c)) {
		case 0:
			bytes += q->iw->plan[q->iw->plans - 1].len;
			break;
		case -EFAULT:
			fault(q, &c, now);
			return;
		default:
			c = before;
			return;
		}
	}
}

/* The rest of an FPDU goes first, alone: it is there already. */
static void plan_tail(struct iw_qp *q)
{
	struct iwarp *iw = q->iw;

	iw->piece[iw->pieces++] = (struct iovec){
		q->tail + q->tail_at, q->tail_end - q->tail_at };
}

static bool sends(const struct iw_qp *q)
{
	return q->life == LIFE_OPEN || q->life == LIFE_LAST;
}

unsigned iwarp_output(struct qp *qp, const struct iovec **iov, uint64_t now)
{
	struct iw_qp *q = iw_qp(qp);

	if (!sends(q))
		return 0;
	no_plan(q);
	if (q->tail_at < q->tail_end) {
		plan_tail(q);
	} else {
		plan(q, now);
		iw_settle(q, now);
		/* A step may have failed the QP: its Terminate. */
		if (!q->iw->plans && q->c.term_due)
			plan(q, now);
	}
	if (!q->iw->pieces && q->life == LIFE_LAST && !q->c.term_due) {
		q->life = LIFE_FIN;
		q->give_up_at = now + 1000000000u;
	}
	*iov = q->iw->piece;
	return q->iw->pieces;
}

/* --- what was taken --------------------------------------------------------------- */

/* Copy [off, off + n) of the pieces to `to`. */
struct gather { const struct iovec *iov; size_t off, n; uint8_t *to; };

static void do_gather(void *arg)
{
	const struct gather *g = arg;
	const struct iovec *v = g->iov;
	size_t off = g->off, n = g->n;
	uint8_t *to = g->to;

	for (; n > 0; v++) {
		size_t take;

		if (off >= v->iov_len) {
			off -= v->iov_len;
			continue;
		}
		take = v->iov_len - off < n ? v->iov_len - off : n;
		memcpy(to, (const uint8_t *)v->iov_base + off, take);
		to += take;
		n -= take;
		off = 0;
	}
}

/* An FPDU went in part: the rest, from byte `from` of the plan on, becomes the
 * tail. */
static bool keep_rest(struct iw_qp *q, size_t from, size_t n)
{
	struct gather g = { q->iw->piece, from, n, q->tail };

	assert(n <= MPA_MARKED_MAX);
	if (guard_call(do_gather, &g) != 0)
		return false;
	q->tail_at = 0;
	q->tail_end = (uint32_t)n;
	return true;
}

/* Half an FPDU is out and the rest cannot be read: the stream is of no use. */
static void broken(struct iw_qp *q, uint64_t now)
{
	log_info("QP 0x%06x: memory went away while it was being sent",
		 q->qp->qpn);
	if (q->qp->sq.tail != q->qp->sq.head)
		sq_complete(q->qp, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_FAULT, now);
	iw_fail(q, IBV_EVENT_QP_FATAL, false, now);
	q->life = LIFE_OVER;
}

static void adapt(struct iw_qp *q, bool all)
{
	if (all && q->budget < BUDGET_MAX)
		q->budget *= 2;
	else if (!all && q->budget > BUDGET_MIN)
		q->budget /= 2;
}

static void sent_plan(struct iw_qp *q, size_t n, uint64_t now)
{
	struct iwarp *iw = q->iw;
	size_t at = 0;
	unsigned i = 0;

	while (i < iw->plans && n - at >= iw->plan[i].len)
		at += iw->plan[i++].len;
	if (i < iw->plans && n > at) {
		if (!keep_rest(q, n, at + iw->plan[i].len - n)) {
			broken(q, now);
			return;
		}
		i++;
	}
	adapt(q, i == iw->plans && q->tail_at == q->tail_end);
	if (i == 0)
		return;
	q->c = iw->plan[i - 1].after;
	iw_req_complete(q, now);
}

void iwarp_sent(struct qp *qp, ssize_t n, uint64_t now)
{
	struct iw_qp *q = iw_qp(qp);

	assert(q->iw->owner == qp);
	if (n < 0) {
		/* With copies under the guard it is known whose it was. */
		q->careful = true;
	} else if (q->tail_at < q->tail_end) {
		q->tail_at += (uint32_t)n;
	} else {
		sent_plan(q, (size_t)n, now);
	}
	no_plan(q);
	iw_settle(q, now);
}
