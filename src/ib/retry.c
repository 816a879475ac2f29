/* SPDX-License-Identifier: BSD-2-Clause */
/* retry.c - moves the requester's cursor: forward on acknowledgements, back to send
 * again.  Also its timers, and how work requests end (IBTA vol. 1, 9.7.6, 9.9.2). */
#include "ib/hang.h"
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "net/link.h"
#include "sys/log.h"
#include "verbs/due.h"
#include "verbs/timeout.h"

enum {
	/* Probe before the standard timeout: the end of a burst may be lost without
	 * a NAK */
	PROBE_MIN_NS = 1000000,
	PROBE_MAX_SHIFT = 9,
	PROBE_BURST = 4, /* packets that a probe sends */
	LATE_NS = 4000000,
	STUCK_NS = 1000000000, /* a link that takes nothing for less is only full */
};

/* --- what is in flight --------------------------------------------------- */

static uint32_t wqe_cost(const struct ib_qp *q, const struct swqe *w, uint32_t from,
			 uint32_t to)
{
	uint32_t bytes = wqe_is_atomic(w) ? 8 : w->length;
	uint32_t cost = (to - from) * (q->mtu + CC_PACKET);

	if (to == w->npkts && to > from)
		cost -= w->npkts * q->mtu - bytes;
	return cost;
}

/* The cost in flight of [una, psn). */
static uint32_t cost_before(const struct ib_qp *q, uint32_t psn)
{
	const struct ib_req *r = &q->req;
	uint32_t at = r->s.una, cost = 0;

	for (uint32_t i = q->qp->sq.tail; i != r->at.fresh && at != psn; i++) {
		const struct swqe *w = sq_at(&q->qp->sq, i);
		uint32_t from = psn_off(at, w->psn), to = psn_off(psn, w->psn);

		if (to > w->npkts)
			to = w->npkts;
		cost += wqe_cost(q, w, from, to);
		at = psn_add(w->psn, to);
	}
	return cost;
}

/* --- timers -------------------------------------------------------------- */

static void set_probe(struct ib_qp *q, uint64_t now)
{
	struct ib_req *r = &q->req;
	uint64_t ns = 4 * r->srtt > PROBE_MIN_NS ? 4 * r->srtt : PROBE_MIN_NS;

	r->probe_at =
		now + (ns << (r->probes < PROBE_MAX_SHIFT ? r->probes : PROBE_MAX_SHIFT));
}

static void set_timers(struct ib_qp *q, uint64_t now)
{
	uint64_t ns = ack_timeout_ns(q->qp);

	q->req.timeout_at = ns ? now + ns : NEVER;
	set_probe(q, now);
}

static void stop_timers(struct ib_req *r)
{
	r->timeout_at = r->probe_at = NEVER;
}

void req_arm(struct ib_qp *q, uint64_t now)
{
	if (q->req.probe_at == NEVER)
		set_timers(q, now);
}

/* --- forward ------------------------------------------------------------- */

/* Takes in the answer to the packet that is timed.  Probes keep the time between them
 * until then (Karn's algorithm): the answer to a packet that was sent twice tells no
 * round trip, and one that is longer than the first probe's time would never be measured.
 */
static void measure(struct ib_req *r, uint64_t now)
{
	uint64_t rtt = now - r->rtt_at;

	if (r->rtt_at == 0 || psn_diff(r->s.una, r->rtt_psn) <= 0)
		return;
	r->srtt = r->srtt ? r->srtt - r->srtt / 8 + rtt / 8 : rtt;
	r->rtt_at = 0;
	r->probes = 0;
}

/* una has moved on from start: updates what depends on it. */
static void progress(struct ib_qp *q, uint32_t start, uint32_t acked, uint64_t now)
{
	struct ib_req *r = &q->req;

	while (r->s.answered != r->at.reads &&
	       psn_diff(r->rd[r->s.answered % RD_MAX].end, r->s.una) <= 0)
		r->s.answered++;
	if (send_caught_up(q->qp, &r->s, &r->at, start))
		acked = r->flight;
	if (!q->qp->reliable)
		return;
	if (q->host)
		cc_acked(q, acked);
	measure(r, now);
	send_refill(q->qp, &r->s);
	r->at.burst = NO_BURST;
	r->implied = r->late = false;
	if (r->at.psn == r->s.una)
		stop_timers(r);
	else
		set_timers(q, now);
}

bool req_advance(struct ib_qp *q, uint32_t to, uint64_t now)
{
	struct ib_req *r = &q->req;
	const uint32_t start = r->s.una;
	struct qp *qp = q->qp;
	struct send_part part;
	uint32_t acked = 0;

	qp_is_held(qp);
	while (send_part(qp, &r->s, &r->at, to, &part)) {
		if (q->host)
			acked += wqe_cost(q, part.w, part.from, part.from + part.n);
		if (!send_took(qp, &r->s, &part, now))
			return true;
	}
	if (r->s.una != start)
		progress(q, start, acked, now);
	return !part.missing;
}

/* --- back ---------------------------------------------------------------- */

void req_rewind(struct ib_qp *q, uint32_t psn)
{
	struct ib_req *r = &q->req;

	if (!send_rewind(q->qp, &r->s, &r->at, psn))
		return;
	while (r->s.answered != r->at.reads &&
	       psn_diff(r->rd[(r->at.reads - 1) % RD_MAX].end, psn) > 0)
		r->at.reads--;
	r->at.unasked = 0;
	r->rtt_at = 0;
	if (q->host)
		cc_forget(q, psn != r->s.una ? cost_before(q, psn) : 0);
}

/* --- ends ---------------------------------------------------------------- */

void req_stop(struct ib_qp *q)
{
	struct ib_req *r = &q->req;

	stop_timers(r);
	send_stop(q->qp, &r->s, &r->at);
	r->refused_at = r->stuck = 0;
	cc_leave(q);
}

void req_reset(struct ib_qp *q, uint32_t psn)
{
	struct ib_req *r = &q->req;

	cc_leave(q);
	*r = (struct ib_req){ .timeout_at = NEVER, .probe_at = NEVER };
	send_reset(q->qp, &r->s, &r->at, psn);
}

void req_fail(struct ib_qp *q, enum ibv_wc_status status, enum verr verr, uint64_t now)
{
	struct qp *qp = q->qp;

	qp_is_held(qp);
	send_end(qp, &q->req.s, &q->req.at, status, verr, now);
	/* 10.3.1: a send error of UC and UD leaves the receive queue alone. */
	ib_fail(q, !qp->reliable, -1, now);
}

void req_tell_error(struct ib_qp *q, uint64_t now)
{
	const struct send_source *s = &q->req.s;

	if (send_fails(q->qp, s, &q->req.at))
		req_fail(q, s->fail_status, s->fail_verr, now);
}

void req_error(struct ib_qp *q, enum ibv_wc_status status, enum verr verr, uint64_t now)
{
	send_refuse(&q->req.s, status, verr);
	req_tell_error(q, now);
}

/* --- lost ---------------------------------------------------------------- */

bool req_retry(struct ib_qp *q, enum verr verr, uint64_t now)
{
	if (send_retry(&q->req.s))
		return true;
	req_fail(q, IBV_WC_RETRY_EXC_ERR, verr, now);
	return false;
}

/* Sends the oldest packets again, a few only. */
static void send_again(struct ib_qp *q)
{
	struct ib_req *r = &q->req;

	req_rewind(q, r->s.una);
	r->at.burst = PROBE_BURST;
	r->implied = false;
}

/* Did this process not run when the timer expired?  Then it may itself have kept the
 * packet from leaving, or the answer from coming: its own packets in its own socket,
 * which it passes on to the process that they are for.  So the time is given once more;
 * but only once for each retry, since a process that always runs late must not wait for
 * ever. */
static bool is_excused(struct ib_req *r, uint64_t now)
{
	r->late = !r->late && now - r->timeout_at > LATE_NS;
	return r->late;
}

static void timed_out(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	if (is_excused(&q->req, now)) {
		set_timers(q, now);
		return;
	}
	count(q, IB_TX_TIMEOUT);
	if (!req_retry(q, VERR_TIMEOUT, now))
		return;
	cc_cut(q->host, now);
	send_again(q);
	q->req.probes = 0;
	stop_timers(&q->req); /* until the packets are sent: req_arm() */
}

/* Has the link of q taken anything since it refused a packet of q?  A QP whose packets
 * come behind those of others may find a link full that is not stuck. */
static bool link_moves(const struct ib_qp *q)
{
	const struct qp *qp = q->qp;

	return qp->reliable && !qp->path.same_host && qp->ctx->link &&
	       qp->ctx->link->took_at > q->req.refused_at;
}

/* No timer runs for a packet that has not left.  Time in which the link was not asked,
 * because this process did not run, does not count.  As long as anything is outstanding,
 * the timers judge. */
bool req_is_stuck(struct ib_qp *q, uint64_t now)
{
	uint64_t most = (q->qp->attr.retry_cnt + 1u) * ack_timeout_ns(q->qp), ns;
	struct ib_req *r = &q->req;

	ns = r->refused_at ? now - r->refused_at : 0;
	if (link_moves(q))
		r->stuck = ns = 0;
	r->stuck += ns < LATE_NS ? ns : LATE_NS;
	r->refused_at = now;
	if (r->at.psn != r->s.una || r->at.cur == q->qp->sq.head ||
	    (q->qp->reliable && !most))
		return false;
	return r->stuck >= (most > STUCK_NS ? most : STUCK_NS);
}

/* Nothing was heard for a while: the end of what was sent, or the answer, may be lost.
 * Sends again without using up a retry. */
static void probe(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct ib_req *r = &q->req;

	count(q, IB_TX_PROBE);
	hang_silent(q, now);
	if (r->probes < UINT8_MAX)
		r->probes++;
	send_again(q);
	set_probe(q, now);
}

static void unreliable_run(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct ib_req *r = &q->req;

	if (r->at.psn != r->s.una) { /* a packet that was sent is done */
		req_advance(q, r->at.psn, now);
		if (r->at.cur != q->qp->sq.head)
			due_add(q->qp->core, q->qp);
	}
	req_tell_error(q, now);
}

uint64_t req_run(struct ib_qp *q, uint64_t now)
{
	struct ib_req *r = &q->req;
	struct qp *qp = q->qp;

	qp_is_held(qp);
	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return NEVER;
	if (!qp->reliable)
		unreliable_run(q, now);
	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return NEVER; /* its CQ was overrun */
	if (send_is_drained(qp, &r->at, false))
		qp_drained(qp);
	if (!qp->reliable)
		return NEVER;
	if (now < r->s.rnr_until)
		return r->s.rnr_until;
	if (r->at.psn == r->s.una) {
		stop_timers(r);
		return list_empty(&q->cc_node) ? NEVER : now + CC_STILL_NS;
	}
	if (silent_until(&qp->core->round, r->timeout_at, now))
		timed_out(q, now);
	else if (silent_until(&qp->core->round, r->probe_at, now))
		probe(q, now);
	return r->timeout_at < r->probe_at ? r->timeout_at : r->probe_at;
}
