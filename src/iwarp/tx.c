/* SPDX-License-Identifier: BSD-2-Clause */
/* tx.c - plans FPDUs from the QP's cursor on, and commits what the stream took. */
#include <assert.h>
#include <string.h>

#include "iwarp/iw_qp.h"
#include "sys/guard.h"
#include "sys/log.h"

/* --- planning ------------------------------------------------------------ */

void iw_nudge(struct iw_qp *q, uint64_t now)
{
	static const uint64_t after[NUDGES] = { 10000000, 100000000, 1000000000 };

	q->nudge_at = q->p.initiator && q->first && q->nudges < NUDGES
			      ? now + after[q->nudges]
			      : NEVER;
}

static enum step nudge_segment(struct iw_cursor *c, struct seg *s)
{
	c->nudge_due = false;
	s->ddp.tagged = s->ddp.last = true;
	s->ddp.ulp = rdmap_control(RDMAP_WRITE);
	return STEP_SEG;
}

/* RFC 5041, 5.3: the segments of a message follow one another, so a message that has
 * begun goes on.  Between messages responses and requests alternate, so that neither can
 * hold up the other; if one cannot go the other may. */
static enum step next_message(struct iw_qp *q, struct iw_cursor *c, struct seg *s,
			      struct work *work, uint64_t now) REQUIRES(q->qp->lock)
{
	enum step step = STEP_WAIT;

	if (send_has_begun(&c->s))
		return iw_req_next(q, c, s, work, now);
	if (c->resource_off)
		return iw_rsp_next(q, c, s, work, now);
	if (c->answered)
		step = iw_req_next(q, c, s, work, now);
	if (step == STEP_WAIT)
		step = iw_rsp_next(q, c, s, work, now);
	if (step == STEP_WAIT && !c->answered)
		step = iw_req_next(q, c, s, work, now);
	return step == STEP_WAIT && c->nudge_due ? nudge_segment(c, s) : step;
}

/* A Terminate is the last message.  Responses to earlier requests go before it, as long
 * as they can: the Terminate names one request and says nothing of those. */
static enum step last_segment(struct iw_qp *q, struct iw_cursor *c, struct seg *s,
			      struct work *work, uint64_t now) REQUIRES(q->qp->lock)
{
	enum step step =
		send_has_begun(&c->s) ? STEP_WAIT : iw_rsp_next(q, c, s, work, now);

	return step == STEP_SEG ? step : iw_term_next(q, c, s);
}

static enum step next_segment(struct iw_qp *q, struct iw_cursor *c, struct seg *s,
			      struct work *work, uint64_t now) REQUIRES(q->qp->lock)
{
	memset(s, 0, offsetof(struct seg, body));
	s->body_len = s->len = s->off = 0;
	s->span = NULL;
	s->ddp.version = DDP_VERSION;
	if (c->term_due)
		return last_segment(q, c, s, work, now);
	if (q->life != LIFE_OPEN || q->hold || q->closing)
		return STEP_WAIT;
	return next_message(q, c, s, work, now);
}

static void no_plan(struct iw_qp *q)
{
	struct iwarp *iw = q->iw;

	iw->owner = q->qp;
	iw->plans = iw->pieces = 0;
	iw->arena_used = 0;
	iw->piece_open = false;
}

/* Is the segment between two cursors a response to the peer? */
static bool is_answer(const struct iw_cursor *a, const struct iw_cursor *b)
{
	return a->resource != b->resource || a->resource_off != b->resource_off;
}

/* The memory of a segment is unmapped.  Planned segments before it are sent first: then
 * it is at the cursor. */
static void fault(struct iw_qp *q, const struct iw_cursor *c, uint64_t now)
	REQUIRES(q->qp->lock)
{
	if (q->iw->plans)
		return;
	if (is_answer(c, &q->c)) {
		q->resources.tail = q->c.resource;
		iw_terminate(q, TERM_RDMAP_LOCAL, NULL, 0, NULL, IBV_EVENT_QP_ACCESS_ERR,
			     now);
	} else {
		iw_req_error(q, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_FAULT, now);
	}
}

static void plan_segments(struct iw_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct iw_cursor c = q->c;
	struct work work;
	uint32_t bytes = 0;
	struct seg s;

	work.memory.resolved = false; /* no initialiser: the rest is large */
	while (bytes < q->budget) {
		switch (next_segment(q, &c, &s, &work, now)) {
		case STEP_AGAIN:
			continue;
		case STEP_WAIT:
		case STEP_STOP:
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
		default: /* no room: sends what is planned */
			return;
		}
	}
}

/* The rest of an FPDU that was sent in part goes first, alone. */
static void plan_tail(struct iw_qp *q)
{
	struct iwarp *iw = q->iw;

	iw->piece[iw->pieces++] =
		(struct iovec){ q->tail + q->tail_at, q->tail_end - q->tail_at };
}

static bool may_send(const struct iw_qp *q)
{
	return q->life == LIFE_OPEN || q->life == LIFE_LAST;
}

unsigned iwarp_output(struct qp *qp, const struct iovec **iov, uint64_t now)
{
	struct iw_qp *q = iw_qp(qp);

	qp_is_held(q->qp);
	if (!may_send(q))
		return 0;
	no_plan(q);
	if (q->tail_at < q->tail_end) {
		plan_tail(q);
	} else {
		plan_segments(q, now);
		iw_settle(q, now);
		/* A step may have failed the QP: plans its Terminate. */
		if (!q->iw->plans && q->c.term_due)
			plan_segments(q, now);
	}
	if (!q->iw->pieces && q->life == LIFE_LAST && !q->c.term_due) {
		q->life = LIFE_FIN;
		q->give_up_at = now + LAST_NS;
	}
	*iov = q->iw->piece;
	return q->iw->pieces;
}

/* --- what was taken ------------------------------------------------------ */

/* Copies [off, off + n) of the pieces to `to`. */
struct gather {
	const struct iovec *iov;
	size_t off, n;
	uint8_t *to;
};

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

/* An FPDU was sent in part: the rest, from byte `from` of the plan on, becomes the
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

/* Half an FPDU is sent and the rest is unreadable, so the stream cannot be used any
 * more. */
static void broken(struct iw_qp *q, bool answer, uint64_t now) REQUIRES(q->qp->lock)
{
	log_info("QP 0x%06x: registered memory was unmapped while it was being sent",
		 q->qp->qpn);
	q->held_until = 0;
	if (!answer) {
		iw_req_flush(q, q->c.s.cur, now);
		if (q->qp->state != IBV_QPS_ERR)
			send_end(q->qp, &q->src, &q->c.s, IBV_WC_LOC_PROT_ERR,
				 VERR_LOCAL_FAULT, now);
	}
	iw_fail(q, answer ? IBV_EVENT_QP_ACCESS_ERR : -1, false, now);
	q->life = LIFE_OVER;
}

static void adapt(struct iw_qp *q, bool all)
{
	if (all && q->budget < BUDGET_MAX)
		q->budget *= 2;
	else if (!all && q->budget > BUDGET_MIN)
		q->budget /= 2;
}

static void sent_plan(struct iw_qp *q, size_t n, uint64_t now) REQUIRES(q->qp->lock)
{
	struct iwarp *iw = q->iw;
	struct iw_cursor before;
	uint32_t cur = q->c.s.cur;
	size_t at = 0;
	unsigned i = 0;

	while (i < iw->plans && n - at >= iw->plan[i].len)
		at += iw->plan[i++].len;
	if (i > 0)
		q->c = iw->plan[i - 1].after;
	if (i < iw->plans && n > at) {
		before = q->c;
		iw_req_complete(q, now);
		if (!keep_rest(q, n, at + iw->plan[i].len - n)) {
			broken(q, is_answer(&before, &iw->plan[i].after), now);
			return;
		}
		q->tail_psn = before.s.psn;
		q->c = iw->plan[i++].after;
	}
	adapt(q, i == iw->plans && q->tail_at == q->tail_end);
	if (i == 0)
		return;
	iw_nudge(q, now);
	q->qp->tp.traffic.sent += i;
	if (q->c.s.cur != cur)
		iw_req_gone(q, now);
	iw_req_complete(q, now);
}

void iwarp_sent(struct qp *qp, ssize_t n, uint64_t now)
{
	struct iw_qp *q = iw_qp(qp);

	qp_is_held(q->qp);
	assert(q->iw->owner == qp);
	if (n < 0) {
		/* Copying under the guard will tell whose memory it was. */
		q->careful = true;
		n = 0;
	} else if (q->tail_at < q->tail_end) {
		q->tail_at += (uint32_t)n;
		iw_req_complete(q, now);
	} else {
		sent_plan(q, (size_t)n, now);
	}
	qp->tp.traffic.sent_bytes += (size_t)n;
	no_plan(q);
	iw_settle(q, now);
}
