/* SPDX-License-Identifier: BSD-2-Clause */
/* lane.c - a QP on a lane (link/lane.h): packets out, and what takes the place of lost
 * packets there: a lane that is full, not up yet, or dead. */
#include "core/due.h"
#include "core/exports.h"
#include "core/timeout.h"
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "sys/log.h"
#include "wire/aeth.h"
#include "wire/gsi.h"

enum {
	ASK_EVERY = 32,	      /* messages whose completion nobody wants */
	STALL_NS = 100000000, /* a UC QP waits no longer for a peer that reads nothing */
	NEWS_NS = 500000000,  /* a death is not told before what came first was polled, */
	NEWS_LOOK_NS = 1000000, /* ... which is looked for so often */
};

/* --- out ----------------------------------------------------------------- */

/* Does a packet that was written since QPs were admitted end there? */
static bool wrote(const struct lane *l, uint32_t end)
{
	return end - l->admitted_at - 1 < *l->written - l->admitted_at;
}

static int no_room(struct ib_qp *q, bool request)
{
	struct lane *l = q->qp->lane;

	/* UC waits for nobody: what a peer does not read is lost. */
	if (request && !q->qp->reliable && !l->ops->moves(l, q->ib->now)) {
		qp_leave_line(q->qp);
		return 0;
	}
	qp_wait_for_lane(q->qp, wrote(l, q->req.written) || wrote(l, q->rsp.written));
	if (request)
		lane_is_full(q, q->ib->now);
	return -ENOBUFS;
}

void lane_no_room(struct ib_qp *q)
{
	(void)no_room(q, true);
}

int lane_emit(struct ib_qp *q, const struct emit *e)
{
	struct lane *l = q->qp->lane;
	int rc = l->ops->send(l, &q->from, &e->f, e->span, e->off, e->len);

	if (rc == -ENOBUFS)
		return no_room(q, false);
	q->rsp.written = *l->written;
	q->qp->core->spent += e->len / REQ_UNIT + 1;
	return rc;
}

int lane_request(struct ib_qp *q, const struct emit *e)
{
	struct lane *l = q->qp->lane;
	int rc = l->ops->send(l, &q->from, &e->f, e->span, e->off, e->len);

	if (rc == -ENOBUFS)
		return no_room(q, true);
	q->req.written = *l->written;
	q->qp->core->spent += e->len / REQ_UNIT + 1;
	return rc;
}

void lane_is_full(struct ib_qp *q, uint64_t now)
{
	q->req.full = true;
	if (q->qp->reliable)
		req_arm(q, now);
}

/* The end of a message whose completion is not wanted need not be acknowledged by
 * itself, unless the send queue fills: one ACK for many is cheaper for both. */
bool lane_asks_for_ack(const struct ib_qp *q, struct req_cursor *at, const struct swqe *w,
		       bool last)
{
	const struct sq *sq = &q->qp->sq;

	if (last && !(w->flags & IBV_SEND_SIGNALED) && ++at->unasked < ASK_EVERY &&
	    sq->head - sq->tail < sq->cap / 2 && q->qp->state == IBV_QPS_RTS)
		return false;
	at->unasked = 0;
	return true;
}

/* --- what has been executed ---------------------------------------------- */

/* A word of lane->executed: the PSN that is expected, of which QP, and which one says so
 * by which route.  0: nothing has been executed since the QP was made ready. */
enum { TOLD = 1 << 24, ROUTE = 0x7fff, FROM_AT = 40 };

static uint64_t word(uint32_t from, uint32_t by, uint32_t route)
{
	return (uint64_t)from << FROM_AT |
	       (uint64_t)((route ^ qpn_index(by)) & ROUTE) << 25 | TOLD;
}

static _Atomic uint64_t *told(const struct ib_qp *q)
{
	const struct lane *l = q->qp->lane;

	return l && l->executed ? &l->executed[qpn_index(q->qp->qpn)] : NULL;
}

/* A packet of another partition, or path, is no more taken on a lane than on a wire. */
void lane_find_route(struct ib_qp *q)
{
	const struct qp *qp = q->qp;
	const struct lane_route r = qp->lane->ops->route(&qp->path.addr);
	uint32_t pkey = qp_pkey_on(qp, &qp->path) & (PKEY_FULL - 1u);

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

/* The word is for the next QP of this number: what it has said is said by a packet. Where
 * there is no room for one it stays until begin_to_tell(). */
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
	struct lane *l = q->qp->lane;

	if (said && (l->state != LANE_UP || !l->ops->send(l, &q->from, &f, NULL, 0, 0)))
		atomic_store(told(q), 0);
}

/* An answer to a READ or atomic is a packet: to say that it was taken asks nobody. */
void lane_tell(struct ib_qp *q, bool asked, bool answered)
{
	uint64_t says = q->tells | q->rsp.epsn;
	struct lane *l = q->qp->lane;

	atomic_store_explicit(&l->executed[qpn_index(q->qp->qpn)], says,
			      memory_order_release);
	exports_set_executed(q->qp->core, q->qp->qpn, q->rsp.epsn);
	if (!asked && !q->rsp.healed)
		return;
	if (!answered)
		l->ops->nudge(l, says);
	q->rsp.healed = false;
}

/* Complete what this word says.  False: no more than before. */
static bool hear(struct ib_qp *q, uint64_t says, uint64_t now) REQUIRES(q->qp->lock)
{
	struct ib_req *r = &q->req;
	uint32_t n = psn_off((uint32_t)says & PSN_MASK, r->una), was = r->una;

	/* One that has failed has flushed what the word completes. */
	if (q->qp->state != IBV_QPS_RTS && q->qp->state != IBV_QPS_SQD)
		return false;
	if (!n || (says ^ q->hears) & ~(uint64_t)PSN_MASK ||
	    n > psn_off(r->at.max_psn, r->una))
		return false;
	(void)req_advance(q, (uint32_t)says & PSN_MASK, now);
	if (r->una == was) /* a READ or atomic, which is answered by a packet */
		return false;
	if (q->qp->state == IBV_QPS_RTS || q->qp->state == IBV_QPS_SQD)
		req_tell_error(q, now);
	if (q->qp->sq.tail != q->qp->sq.head || q->qp->state != IBV_QPS_RTS)
		due_add(q->qp->core, q->qp);
	return true;
}

static uint64_t word_for(const struct ib_qp *q)
{
	const struct lane *l = q->qp->lane;
	uint32_t from = qpn_index(q->qp->attr.dest_qp_num);

	return l->theirs ? atomic_load_explicit(&l->theirs[from], memory_order_acquire)
			 : 0;
}

bool lane_hear(struct ib_qp *q, uint64_t now)
{
	return hear(q, word_for(q), now);
}

/* says: 0, or what the QP's word was. */
static void news(struct qp *qp, uint64_t says, uint64_t now)
{
	struct ib_qp *q = ib_qp(qp);

	if (!qp->core->leaving)
		lock_take(&qp->lock);
	else if (!lock_try(&qp->lock))
		return;
	qp_is_held(q->qp);
	(void)hear(q, says ? says : word_for(q), now);
	if (psn_diff(q->req.una, q->req.asked) >= 0)
		list_del(&qp->lane_out);
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
	if (qp && qp->lane == l && qp->reliable)
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
	bool open = qp->lane && (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS ||
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
	const struct lane *l = q->qp->lane;

	q->req.seen = *l->read;
	q->req.seen_in = *l->got;
}

bool lane_is_read(struct ib_qp *q)
{
	struct lane *l = q->qp->lane;

	return l->state == LANE_UP && l->ops->look(l) &&
	       (int32_t)(q->req.written - *l->read) <= 0;
}

/* The peer may have been busy with what others had written before, or with READs.
 * What it has read of this QP's and not answered is no excuse. */
bool lane_is_silent(struct ib_qp *q)
{
	const struct ib_req *r = &q->req;
	struct lane *l = q->qp->lane;

	if (l->state != LANE_UP || !l->ops->look(l))
		return true;
	if (r->rd_head != r->at.rd_tail && *l->got != r->seen_in)
		return false;
	return *l->read == r->seen || (!r->full && lane_is_read(q));
}

bool lane_waits(const struct ib_qp *q)
{
	const struct qp *qp = q->qp;

	return q->req.full || (qp->lane->state == LANE_PENDING &&
			       qp->state == IBV_QPS_RTS && qp->sq.tail != qp->sq.head);
}

/* What is posted goes to nobody, and is complete. */
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

/* A UC QP waits for STALL_NS, then its output() finds out whether the peer reads. */
static uint64_t uc_run(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct ib_req *r = &q->req;
	struct qp *qp = q->qp;

	if (!lane_waits(q)) {
		r->timeout_at = NEVER;
		return NEVER;
	}
	if (r->timeout_at == NEVER)
		r->timeout_at = went_out(qp->core, now) + STALL_NS;
	if (!silent_until(qp->core, r->timeout_at, now))
		return r->timeout_at;
	r->timeout_at = NEVER;
	if (qp->lane->state == LANE_PENDING) {
		uc_complete_all(q, now);
	} else {
		qp_leave_line(qp);
		due_add(qp->core, qp);
	}
	return NEVER;
}

/* What its peer did before it ended has completed work that the program has not
 * seen yet. */
static bool has_news(const struct qp *qp)
{
	return !cq_empty(qp->send_cq) || !cq_empty(qp->recv_cq);
}

/* The peer's process has ended: nobody will ever answer. */
static uint64_t bereft(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct qp *qp = q->qp;
	struct lane *l = qp->lane;

	if (!l->dead_since)
		l->dead_since = now;
	q->rsp.ack.due = false; /* nobody hears it */
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
	if (q->qp->lane->state == LANE_DEAD) {
		*next = bereft(q, now);
		return true;
	}
	if (!q->qp->reliable) {
		*next = uc_run(q, now);
		return true;
	}
	if (lane_waits(q)) /* nothing may be out, but the timers run */
		req_arm(q, now);
	return false;
}
