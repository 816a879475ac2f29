/* SPDX-License-Identifier: BSD-2-Clause */
/* lane.c - a QP on a lane (net/lane.h): sends packets, and handles a lane that is full,
 * not up yet, or dead, which takes the place of packet loss there. */
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "ib/on_lane.h"
#include "sys/log.h"
#include "verbs/due.h"
#include "verbs/exports.h"
#include "verbs/round.h"
#include "wire/aeth.h"
#include "wire/well_known.h"

enum {
	ASK_EVERY = 32,	      /* messages without a completion that share one ACK */
	STALL_NS = 100000000, /* how long a UC QP waits for a peer that reads nothing */
	/* Completions that are not polled delay the error for a dead peer so long. */
	NEWS_NS = 500000000,
	NEWS_LOOK_NS = 1000000, /* how often the CQs are checked meanwhile */
	AGAIN_NS = 1000000000,	/* how long a peer may say "again" at no cost */
};

/* --- out ----------------------------------------------------------------- */

/* full: there is no room; otherwise others come first. */
static int no_room(struct ib_qp *q, bool request, bool full)
{
	struct lane *l = q->qp->lane.via;

	/* UC waits for nobody: a packet that the peer does not read is lost. */
	if (request && !q->qp->reliable && !l->ops->moves(l, q->ib->now)) {
		qp_leave_line(q->qp);
		return 0;
	}
	qp_wait_for_lane(q->qp, full);
	if (request)
		lane_is_full(q, q->ib->now);
	return -ENOBUFS;
}

void lane_no_room(struct ib_qp *q, bool full)
{
	(void)no_room(q, true, full);
}

int lane_emit(struct ib_qp *q, const struct emit *e)
{
	struct lane *l = q->qp->lane.via;
	int rc;

	if (ib_op(e->f.opcode)->kind != IB_ACK && !qp_may_write(q->qp))
		return no_room(q, false, false);
	rc = l->ops->send(l, &q->from, &e->f, e->span, e->off, e->len);
	if (rc == -ENOBUFS)
		return no_room(q, false, true);
	q->qp->core->round.spent += e->len / REQ_UNIT + 1;
	return rc;
}

int lane_request(struct ib_qp *q, const struct emit *e)
{
	struct lane *l = q->qp->lane.via;
	int rc;

	if (!qp_may_write(q->qp))
		return no_room(q, true, false);
	rc = l->ops->send(l, &q->from, &e->f, e->span, e->off, e->len);
	if (rc == -ENOBUFS)
		return no_room(q, true, true);
	q->req.written = lane_mark(l->written);
	q->qp->core->round.spent += (e->f.by_ref ? 0 : e->len / REQ_UNIT) + 1;
	return rc;
}

void lane_is_full(struct ib_qp *q, uint64_t now)
{
	q->req.full = true;
	if (q->qp->reliable)
		req_arm(q, now);
}

/* The end of a message without a completion need not be acknowledged by itself, unless
 * the send queue fills: one ACK for many messages is cheaper for both sides. */
bool lane_asks_for_ack(const struct ib_qp *q, struct send_cursor *at,
		       const struct swqe *w, bool last)
{
	const struct sq *sq = &q->qp->sq;

	if (last && !(w->flags & IBV_SEND_SIGNALED) && ++at->unasked < ASK_EVERY &&
	    sq->head - sq->tail < sq->cap / 2 && q->qp->state == IBV_QPS_RTS)
		return false;
	at->unasked = 0;
	return true;
}

/* --- what has been executed ---------------------------------------------- */

/* A word of lane->executed is an ACK in shared memory: the PSN that the responder expects
 * next, the QP that it is for, and a hash of the responder's QP and route.  0: nothing
 * has been executed since the QP was made ready.  TOLD is missing: the QP takes and
 * answers no more. */
enum { TOLD = 1 << 24, ROUTE = 0x7fff, FROM_AT = 40 };

static uint64_t word(uint32_t from, uint32_t by, uint32_t route)
{
	return (uint64_t)from << FROM_AT |
	       (uint64_t)((route ^ qpn_index(by)) & ROUTE) << 25 | TOLD;
}

static _Atomic uint64_t *told(const struct ib_qp *q)
{
	const struct lane *l = q->qp->lane.via;

	return l && l->executed ? &l->executed[qpn_index(q->qp->qpn)] : NULL;
}

/* A packet of another partition, or by another path, must be refused on a lane as on a
 * wire: so the P_Key is mixed into the route. */
void lane_find_route(struct ib_qp *q)
{
	const struct qp *qp = q->qp;
	const struct lane_route r = qp->lane.via->ops->route(&qp->path.addr);
	uint32_t pkey = qp_pkey(qp) & (PKEY_FULL - 1u);

	q->route_in = r.in ^ pkey;
	q->from = (struct lane_from){ qp->qpn, r.out ^ pkey };
	q->tells = word(qp->attr.dest_qp_num, qp->qpn, q->route_in);
	q->hears = word(qp->qpn, qp->attr.dest_qp_num, q->from.out);
}

static void begin_to_tell(struct ib_qp *q)
{
	if (told(q))
		atomic_store(told(q), 0);
}

/* The word will serve the next QP of this number, so the last ACK is sent as a packet
 * instead.  If the lane has no room for it, the word stays until begin_to_tell(), less
 * TOLD. */
static void end_telling(struct ib_qp *q)
{
	const struct ib_rsp *s = &q->rsp;
	uint64_t said = told(q) ? atomic_load(told(q)) : 0;
	uint32_t next = s->resources ? s->resource[0].psn : (uint32_t)said & PSN_MASK;
	struct ib_fields f = {
		.psn = psn_add(next, PSN_MASK),
		.dest_qp = (uint32_t)(said >> FROM_AT),
		.opcode = ib_opcode(q->service, IB_ACK, IB_ONLY, IB_NONE),
		.syndrome = aeth_syndrome(AETH_ACK, AETH_NO_CREDITS),
		.msn = s->msn,
	};
	struct lane *l = q->qp->lane.via;

	if (!said)
		return;
	if (l->state == LANE_UP && l->ops->send(l, &q->from, &f, NULL, 0, 0))
		atomic_store(told(q), said & ~(uint64_t)TOLD);
	else
		atomic_store(told(q), 0);
}

/* The response to a READ or atomic is a packet, so the peer needs no nudge to look at the
 * word. */
void lane_tell(struct ib_qp *q, bool asked, bool answered)
{
	uint64_t says = q->tells | q->rsp.epsn;
	struct lane *l = q->qp->lane.via;

	atomic_store_explicit(&l->executed[qpn_index(q->qp->qpn)], says,
			      memory_order_release);
	exports_set_executed(q->qp->core, q->qp->qpn, q->rsp.epsn);
	if (!asked && !q->rsp.healed)
		return;
	if (!answered)
		l->ops->nudge(l, says);
	q->rsp.healed = false;
}

/* Completes what the word `says` acknowledges.  Returns false if that is nothing new. */
static bool hear(struct ib_qp *q, uint64_t says, uint64_t now) REQUIRES(q->qp->lock)
{
	struct ib_req *r = &q->req;
	uint32_t n = psn_off((uint32_t)says & PSN_MASK, r->s.una), was = r->s.una;

	/* A QP that has failed has flushed the requests that the word would complete. */
	if (q->qp->state != IBV_QPS_RTS && q->qp->state != IBV_QPS_SQD)
		return false;
	if (!n || (says ^ q->hears) & ~(uint64_t)(PSN_MASK | TOLD) ||
	    n > psn_off(r->at.max_psn, r->s.una))
		return false;
	(void)req_advance(q, (uint32_t)says & PSN_MASK, now);
	if (r->s.una == was) /* a READ or atomic, which a packet must answer */
		return false;
	if (q->qp->state == IBV_QPS_RTS || q->qp->state == IBV_QPS_SQD)
		req_tell_error(q, now);
	if (q->qp->sq.tail != q->qp->sq.head || q->qp->state != IBV_QPS_RTS)
		due_add(q->qp->core, q->qp);
	return true;
}

static uint64_t word_for(const struct ib_qp *q)
{
	const struct lane *l = q->qp->lane.via;
	uint32_t from = qpn_index(q->qp->attr.dest_qp_num);

	return l->theirs ? atomic_load_explicit(&l->theirs[from], memory_order_acquire)
			 : 0;
}

bool lane_hear(struct ib_qp *q, uint64_t now)
{
	return hear(q, word_for(q), now);
}

/* says: the word that was read for this QP, or 0 to read it here. */
static void news(struct qp *qp, uint64_t says, uint64_t now)
{
	struct ib_qp *q = ib_qp(qp);

	if (!qp->core->leaving)
		lock_take(&qp->lock);
	else if (!lock_try(&qp->lock))
		return;
	qp_is_held(q->qp);
	(void)hear(q, says ? says : word_for(q), now);
	if (psn_diff(q->req.s.una, q->req.asked) >= 0)
		list_del(&qp->lane.ack);
	ib_settle(q);
	lock_give(&qp->lock);
}

void ib_lane_news(struct qp *qp, uint64_t now)
{
	news(qp, 0, now);
}

void ib_lane_told(struct core *core, const struct lane *l, uint64_t word, uint64_t now)
{
	struct qp *qp;

	turn_is_held(core);
	qp = qp_find(core, (uint32_t)(word >> FROM_AT));
	if (qp && qp->lane.via == l && qp->reliable)
		news(qp, word, now);
}

void lane_hide(struct ib_qp *q)
{
	if (q->shown && q->qp->reliable)
		end_telling(q);
}

void lane_show(struct ib_qp *q)
{
	const struct qp *qp = q->qp;
	bool open =
		qp->lane.via && (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS ||
				 qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE);

	if (!open && !q->shown)
		return;
	if (open && !q->shown)
		begin_to_tell(q);
	if (!open)
		lane_hide(q);
	q->shown = open;
	exports_put_qp(qp->core, qp->qpn,
		       &(struct exported_qp){
			       .open = open,
			       .pd = qp->pd->ibv.handle,
			       .access = qp->attr.qp_access_flags,
			       .dest_qp = qp->attr.dest_qp_num,
			       .path = q->route_in,
			       .reads = qp->attr.max_dest_rd_atomic,
			       .executed = q->rsp.epsn,
		       });
}

/* --- no answer ----------------------------------------------------------- */

void lane_watch(struct ib_qp *q)
{
	const struct lane *l = q->qp->lane.via;

	q->req.seen = lane_mark(l->read);
	q->req.seen_in = lane_mark(l->got);
}

bool lane_is_read(struct ib_qp *q)
{
	struct lane *l = q->qp->lane.via;

	return l->state == LANE_UP && l->ops->look(l) &&
	       (int32_t)(q->req.written - lane_mark(l->read)) <= 0;
}

/* Has the responder taken the oldest request, a READ or atomic, and not answered yet?
 * Then the answer is to come, unless its QP has ended. */
static bool is_taken(const struct ib_qp *q)
{
	const struct ib_req *r = &q->req;
	uint64_t says = word_for(q);
	uint32_t n = psn_off((uint32_t)says & PSN_MASK, r->s.una);

	return r->s.answered != r->at.reads &&
	       !((says ^ q->hears) & ~(uint64_t)PSN_MASK) && n &&
	       n <= psn_off(r->at.max_psn, r->s.una);
}

/* A peer that is busy with packets others had written before is not silent, nor one whose
 * answer waits behind others: a ring holds a limited number of either.  But a peer that
 * has read all that this QP has written has executed it or dropped it, and what it writes
 * for other QPs, or this process for itself, is no answer. */
bool lane_is_silent(struct ib_qp *q)
{
	const struct ib_req *r = &q->req;
	struct lane *l = q->qp->lane.via;

	if (l->state != LANE_UP || !l->ops->look(l))
		return true;
	if (lane_mark(l->got) != r->seen_in && is_taken(q))
		return false;
	return lane_mark(l->read) == r->seen ||
	       (r->at.psn != r->s.una && lane_is_read(q));
}

bool lane_waits(const struct ib_qp *q)
{
	const struct qp *qp = q->qp;

	return q->req.full || (qp->lane.via->state == LANE_PENDING &&
			       qp->state == IBV_QPS_RTS && qp->sq.tail != qp->sq.head);
}

/* Completes all posted work requests of a UC QP with success, although nobody gets
 * them. */
static void uc_complete_all(struct ib_qp *q, uint64_t now)
{
	struct qp *qp = q->qp;

	qp_is_held(qp);
	while (qp->sq.tail != qp->sq.head &&
	       (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD)) {
		sq_complete(qp, IBV_WC_SUCCESS, VERR_NONE, now);
		q->req.at.cur = q->req.at.fresh = qp->sq.tail;
	}
}

/* A UC QP waits STALL_NS for room; then its output() finds out whether the peer reads. */
static uint64_t uc_run(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct ib_req *r = &q->req;
	struct qp *qp = q->qp;

	if (!lane_waits(q)) {
		r->timeout_at = NEVER;
		return NEVER;
	}
	if (r->timeout_at == NEVER)
		r->timeout_at = went_out(&qp->core->round, now) + STALL_NS;
	if (!silent_until(&qp->core->round, r->timeout_at, now))
		return r->timeout_at;
	r->timeout_at = NEVER;
	if (qp->lane.via->state == LANE_PENDING) {
		uc_complete_all(q, now);
	} else {
		qp_leave_line(qp);
		due_add(qp->core, qp);
	}
	return NEVER;
}

/* Requests that the peer executed before it ended may have completed work that the
 * program has not polled yet. */
static bool has_news(const struct qp *qp)
{
	return !cq_empty(qp->send_cq) || !cq_empty(qp->recv_cq);
}

/* A peer waits for a receive for a while (rnr.c), and then says RNR, which is counted. */
bool lane_again(struct ib_qp *q, uint32_t psn, uint64_t now)
{
	struct ib_req *r = &q->req;

	if (!req_advance(q, psn, now) || q->qp->state == IBV_QPS_ERR)
		return true;
	if (!r->again_until)
		r->again_until = now + AGAIN_NS;
	else if (now >= r->again_until)
		return false;
	count(q, IB_RX_NAK);
	req_rewind(q, r->s.una);
	r->at.burst = NO_BURST;
	return true;
}

/* The peer's process has ended: no answer will ever come. */
static uint64_t bereft(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct qp *qp = q->qp;
	struct lane *l = qp->lane.via;

	if (!l->dead_since)
		l->dead_since = now;
	q->rsp.ack.due = false; /* nobody would receive the ACK */
	if (!qp->reliable) {
		uc_complete_all(q, now);
		return NEVER;
	}
	if (qp->sq.tail == qp->sq.head)
		return NEVER;
	if (has_news(qp) && now - l->dead_since < NEWS_NS)
		return now + NEWS_LOOK_NS;
	req_fail(q, IBV_WC_RETRY_EXC_ERR, VERR_PEER_ENDED, now);
	return NEVER;
}

bool lane_run(struct ib_qp *q, uint64_t now, uint64_t *next)
{
	if (q->qp->lane.via->state == LANE_DEAD) {
		*next = bereft(q, now);
		return true;
	}
	if (!q->qp->reliable) {
		*next = uc_run(q, now);
		return true;
	}
	if (lane_waits(q)) /* nothing may be outstanding, but the timers must run */
		req_arm(q, now);
	return false;
}
