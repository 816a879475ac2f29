/* SPDX-License-Identifier: BSD-2-Clause */
/* completer.c - what comes back for a requester, or does not. */
#include <inttypes.h>

#include "core/due.h"
#include "core/timeout.h"
#include "local/local_qp.h"
#include "sys/log.h"

enum {
	HOLD_NS = 1000000,
	HOLD_SHIFT_MAX = 7,
	NEWS_NS =
		500000000, /* a death waits so long for what came before it to be read */
	LOOK_NS = 1000000, /* ... and this long from look to look */
};

/* --- ends ---------------------------------------------------------------- */

void lreq_stop(struct local_qp *q)
{
	struct local_req *r = &q->req;

	r->cur = q->qp->sq.head;
	r->una = r->psn;
	r->begun = r->lost = r->full = r->failed = r->by_record = false;
	r->reads = r->direct = 0;
	r->timeout_at = NEVER;
	r->hold_until = 0;
}

void lreq_reset(struct local_qp *q, uint32_t psn)
{
	q->req = (struct local_req){
		.una = psn & PSN_MASK,
		.psn = psn & PSN_MASK,
		.cur = q->qp->sq.tail,
		.retry_left = q->qp->attr.retry_cnt,
		.rnr_left = q->qp->attr.rnr_retry,
		.timeout_at = NEVER,
	};
	list_del(&q->full);
}

/* The oldest fails, by the peer or for want of one. */
static void fail(struct local_qp *q, enum ibv_wc_status status, enum verr verr,
		 uint64_t now) REQUIRES(q->qp->lock)
{
	struct qp *qp = q->qp;
	const struct swqe *w = sq_at(&qp->sq, qp->sq.tail);

	qp_is_held(qp);
	log_info("QP 0x%06x: work request 0x%" PRIx64 " to QP 0x%06x, PSN %u: %s "
		 "(retries left: %u, RNR: %u)",
		 qp->qpn, w->wr_id, qp->attr.dest_qp_num, q->req.una,
		 verr_text(verr)->what, q->req.retry_left, q->req.rnr_left);
	sq_complete(qp, status, verr, now);
	local_fail(q, qp->type != IBV_QPT_RC, -1, now);
}

void lreq_tell_error(struct local_qp *q, uint64_t now)
{
	if (q->req.failed && q->req.cur == q->qp->sq.tail)
		fail(q, q->req.fail_status, q->req.fail_verr, now);
}

/* UC: what is posted goes to nobody. */
static void uc_complete_all(struct local_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct qp *qp = q->qp;

	qp_is_held(qp);
	while (qp->sq.tail != qp->sq.head && lreq_alive(q)) {
		sq_complete(qp, IBV_WC_SUCCESS, VERR_NONE, now);
		q->req.cur = qp->sq.tail;
		q->req.begun = false;
	}
}

/* --- time ---------------------------------------------------------------- */

static void set_timer(struct local_qp *q, uint64_t now)
{
	uint64_t ns = ack_timeout_ns(q->qp);

	q->req.timeout_at = ns ? now + ns : NEVER;
	q->req.seen = q->peer->out.tail;
	q->req.seen_in = q->peer->in.tail;
}

void lreq_arm(struct local_qp *q, uint64_t now)
{
	if (q->req.timeout_at != NEVER)
		return;
	now = went_out(q->l->core, now);
	if (q->qp->type == IBV_QPT_RC)
		set_timer(q, now);
	else
		q->req.timeout_at = now + STALL_NS;
}

/* Has the peer been busy with what others had written before, or with READs?
 * What it has read of ours and not answered is no excuse. */
static bool is_busy(const struct local_qp *q)
{
	const struct local_req *r = &q->req;
	const struct peer *p = q->peer;

	if (r->lost)
		return false;
	if (r->reads && p->in.tail != r->seen_in)
		return true;
	return p->out.tail != r->seen &&
	       (r->full || (int32_t)(r->written - p->out.tail) > 0);
}

/* It is time to look whether the peer reads. */
static void uc_waits_no_more(struct local_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	q->req.timeout_at = NEVER;
	if (q->peer->state == PEER_OPENING) {
		uc_complete_all(q, now);
		return;
	}
	list_del(&q->full);
	due_add(q->qp->core, q->qp);
}

static void timed_out(struct local_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct local_req *r = &q->req;

	if (q->qp->type == IBV_QPT_UC) {
		uc_waits_no_more(q, now);
		return;
	}
	if (q->peer->state == PEER_UP && !ring_look(&q->peer->out)) {
		peer_broken(q->peer, "it has read what was not written");
		return;
	}
	if (is_busy(q)) {
		set_timer(q, now);
		return;
	}
	if (r->retry_left == 0) {
		fail(q, IBV_WC_RETRY_EXC_ERR, VERR_TIMEOUT, now);
		return;
	}
	r->retry_left--;
	set_timer(q, now);
}

/* Something is to be sent, and the peer has not said yet that there is a pipe:
 * one that is stopped never will. */
static bool waits_for_pipe(const struct local_qp *q)
{
	const struct qp *qp = q->qp;

	return q->peer && q->peer->state == PEER_OPENING && qp->state == IBV_QPS_RTS &&
	       qp->sq.tail != qp->sq.head;
}

static bool is_dead(const struct local_qp *q)
{
	return q->peer && q->peer->state == PEER_DEAD;
}

/* What its peer did before it ended has completed work that the program has not
 * seen yet. */
static bool has_news(const struct qp *qp)
{
	return !cq_empty(qp->send_cq) || !cq_empty(qp->recv_cq);
}

/* Nobody will ever answer.  (UC: nobody was to.)  Returns when to ask again. */
static uint64_t bereft(struct local_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct qp *qp = q->qp;
	struct peer *p = q->peer;

	if (!p->dead_since)
		p->dead_since = now;
	if (qp->type == IBV_QPT_UC) {
		uc_complete_all(q, now);
		return NEVER;
	}
	if (qp->sq.tail == qp->sq.head)
		return NEVER;
	if (has_news(qp) && now - p->dead_since < NEWS_NS)
		return now + LOOK_NS;
	fail(q, IBV_WC_RETRY_EXC_ERR, VERR_PEER_ENDED, now);
	return NEVER;
}

uint64_t lreq_run(struct local_qp *q, uint64_t now)
{
	struct local_req *r = &q->req;
	struct qp *qp = q->qp;

	qp_is_held(qp);
	if (qp->state == IBV_QPS_SQD && qp->draining && qp->sq.tail == r->cur &&
	    !r->begun)
		qp_drained(qp);
	if (!lreq_alive(q))
		return NEVER;
	if (is_dead(q))
		return bereft(q, now);
	lreq_tell_error(q, now);
	if (!lreq_alive(q))
		return NEVER;
	if (waits_for_pipe(q)) {
		lreq_arm(q, now);
	} else if (r->una == r->psn && !r->lost && !r->full) {
		r->timeout_at = NEVER;
		return r->hold_until > now ? r->hold_until : NEVER;
	}
	if (silent_until(qp->core, r->timeout_at, now))
		timed_out(q, now);
	return r->hold_until > now && r->hold_until < r->timeout_at ? r->hold_until
								    : r->timeout_at;
}

/* --- what comes back ----------------------------------------------------- */

void lreq_progress(struct local_qp *q, uint64_t now)
{
	struct local_req *r = &q->req;

	r->retry_left = q->qp->attr.retry_cnt;
	r->rnr_left = q->qp->attr.rnr_retry;
	r->tries = 0;
	r->lost = false;
	r->hold_until = 0;
	if (r->una == r->psn)
		r->timeout_at = NEVER;
	else
		set_timer(q, now);
}

static void bad_response(struct local_qp *q, const struct rec *rec, uint64_t now)
	REQUIRES(q->qp->lock)
{
	log_info("QP 0x%06x: record %u, PSN %u: does not answer the request", q->qp->qpn,
		 rec->op, rec->psn);
	fail(q, IBV_WC_BAD_RESP_ERR, VERR_BAD_RESPONSE, now);
}

/* Everything before PSN to has been executed.  False: the QP has failed. */
static bool advance(struct local_qp *q, const struct rec *rec, uint32_t to, uint64_t now)
	REQUIRES(q->qp->lock)
{
	struct local_req *r = &q->req;
	struct sq *sq = &q->qp->sq;

	if (r->una == to)
		return true;
	while (sq->tail != r->cur + r->begun && r->una != to) {
		struct swqe *w = sq_at(sq, sq->tail);
		uint32_t from = psn_off(r->una, w->psn), n = w->npkts - from;

		if (wqe_is_read(w) && w->done < w->length) {
			bad_response(q, rec, now); /* where is its answer? */
			return false;
		}
		if (n > psn_off(to, r->una)) {
			r->una = to;
			break;
		}
		r->una = psn_add(r->una, n);
		r->reads -= wqe_is_read(w);
		sq_complete(q->qp, IBV_WC_SUCCESS, VERR_NONE, now);
		if (q->qp->state == IBV_QPS_ERR) /* its CQ is overrun */
			return false;
	}
	lreq_progress(q, now);
	return true;
}

bool lreq_executed(struct local_qp *q, uint64_t now)
{
	const struct rec ack = { .op = REC_ACK, .psn = q->req.psn };

	return advance(q, &ack, q->req.psn, now) && q->req.cur == q->qp->sq.tail;
}

/* READs and atomics are executed when they are answered. */
bool lreq_all_executed(struct local_qp *q, uint64_t now)
{
	const struct by by = local_by(q);

	return q->req.reads == 0 && reach_executed(&by, q->req.psn) &&
	       lreq_executed(q, now);
}

/* The oldest was not taken, nor what is behind it: again, after a while. */
static void rewind_to_una(struct local_qp *q, uint64_t until)
{
	struct local_req *r = &q->req;

	r->cur = q->qp->sq.tail;
	r->psn = r->una;
	r->begun = true;
	r->failed = r->by_record = false;
	r->reads = r->direct = 0;
	r->hold_until = until;
}

static void not_ready(struct local_qp *q, uint64_t now)
{
	struct local_req *r = &q->req;
	uint64_t hold = (uint64_t)HOLD_NS << r->tries, max = ack_timeout_ns(q->qp);

	lreq_arm(q, now);
	r->lost = true;
	rewind_to_una(q, now + (max && hold > max ? max : hold));
	if (r->tries < HOLD_SHIFT_MAX)
		r->tries++;
}

static void rnr(struct local_qp *q, unsigned timer, uint64_t now) REQUIRES(q->qp->lock)
{
	struct local_req *r = &q->req;

	if (q->qp->attr.rnr_retry != 7) { /* 7: for ever */
		if (r->rnr_left == 0) {
			fail(q, IBV_WC_RNR_RETRY_EXC_ERR, VERR_RNR_RETRIES, now);
			return;
		}
		r->rnr_left--;
	}
	r->lost = false;
	r->timeout_at = NEVER;
	rewind_to_una(q, now + rnr_timer_ns(timer));
}

static void nak(struct local_qp *q, const struct rec *rec, uint64_t now)
	REQUIRES(q->qp->lock)
{
	if (q->req.una == q->req.psn) /* on the way back already */
		return;
	switch ((enum rec_nak)rec->code) {
	case REC_NOT_READY:
		not_ready(q, now);
		return;
	case REC_RNR:
		rnr(q, rec->imm, now);
		return;
	case REC_INVALID:
		fail(q, IBV_WC_REM_INV_REQ_ERR, VERR_REMOTE_INVALID, now);
		return;
	case REC_ACCESS:
		fail(q, IBV_WC_REM_ACCESS_ERR, VERR_REMOTE_ACCESS, now);
		return;
	case REC_OPERATION:
		fail(q, IBV_WC_REM_OP_ERR, VERR_REMOTE_OPERATION, now);
		return;
	case REC_NAKS:
		break;
	}
}

/* The next bytes of the oldest READ, or an atomic's result. */
static void answer(struct local_qp *q, const struct rec *rec, const uint8_t *payload,
		   uint32_t len, uint64_t now) REQUIRES(q->qp->lock)
{
	struct qp *qp = q->qp;
	uint32_t tail = qp->sq.tail, n = packets(q, len);
	struct swqe *w = sq_at(&qp->sq, tail);
	bool read = rec->op == REC_READ_RESP, whole;
	int rc;

	whole = w->done <= w->length && len == w->length - w->done;
	if (!wqe_is_read(w) || read != (w->opcode == IBV_WR_RDMA_READ) ||
	    (read ? len > w->length - w->done || (!whole && (len == 0 || len % q->mtu))
		  : len != 8)) {
		bad_response(q, rec, now);
		return;
	}
	rc = scatter(qp, qp->pd, sq_sges(&qp->sq, tail), w->num_sge, read ? w->done : 0,
		     payload, len);
	if (rc) {
		fail(q, IBV_WC_LOC_PROT_ERR, verr_of(rc), now);
		return;
	}
	if (!read || whole) {
		w->done = w->length;
		advance(q, rec, psn_add(q->req.una, n), now);
		return;
	}
	w->done += len;
	q->req.una = psn_add(q->req.una, n);
	lreq_progress(q, now);
}

void lreq_response(struct local_qp *q, const struct rec *rec, const uint8_t *payload,
		   uint32_t len, uint64_t now)
{
	struct local_req *r = &q->req;
	uint32_t psn = rec->psn & PSN_MASK, ahead = psn_off(psn, r->una);

	if (!lreq_alive(q))
		return;
	/* Ghosts: nothing that is out has this PSN. */
	if (ahead > psn_off(r->psn, r->una) || (rec->op != REC_ACK && r->una == r->psn))
		return;
	switch ((enum rec_op)rec->op) {
	case REC_ACK:
		advance(q, rec, psn, now);
		break;
	case REC_NAK:
		if (rec->code == REC_NOT_READY && ahead)
			return; /* the oldest counts */
		if (advance(q, rec, psn, now))
			nak(q, rec, now);
		break;
	case REC_READ_RESP:
	case REC_ATOMIC_RESP:
		/* Nothing is left to be answered: a ghost, too. */
		if (advance(q, rec, psn, now) && r->una != r->psn)
			answer(q, rec, payload, len, now);
		break;
	case REC_PAD:
	case REC_SEND:
	case REC_WRITE:
	case REC_READ:
	case REC_CMP_SWAP:
	case REC_FETCH_ADD:
	case REC_DGRAM:
	case REC_OPS:
		return;
	}
	if (lreq_alive(q))
		lreq_tell_error(q, now);
	if (q->qp->sq.tail != q->qp->sq.head || q->qp->state != IBV_QPS_RTS)
		due_add(q->qp->core, q->qp);
}
