/* SPDX-License-Identifier: BSD-2-Clause */
/* qp.c - the iWARP transport as verbs and driver see it: connections and states. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iwarp/iw_qp.h"
#include "sys/addr.h"
#include "sys/log.h"
#include "verbs/device.h"
#include "verbs/due.h"
#include "verbs/event.h"
#include "verbs/room.h"
#include "verbs/round.h"

#define CLOSING_NS 5000000000ull /* wait for the peer's FIN after ours */

/* --- the NIC ------------------------------------------------------------- */

static struct room_key iwarp_key;

static struct iwarp *iwarp_of(const struct core *core)
{
	return room_get(core, &iwarp_key);
}

int iwarp_open(struct core *core, const struct iwarp_ops *ops, void *arg)
{
	struct iwarp *iw = calloc(1, sizeof(*iw));

	if (!iw)
		return -ENOMEM;
	iw->core = core;
	iw->ops = ops;
	iw->arg = arg;
	iw->late_ns = caps.as_hardware ? 0 : IW_RECV_WAIT_NS;
	room_put(core, &iwarp_key, iw);
	return 0;
}

void iwarp_close(struct core *core)
{
	free(iwarp_of(core));
	room_put(core, &iwarp_key, NULL);
}

/* --- a QP ---------------------------------------------------------------- */

static int open_qp(struct qp *qp)
{
	struct iw_qp *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	q->qp = qp;
	q->iw = iwarp_of(qp->core);
	q->give_up_at = q->nudge_at = NEVER;
	qp->tp.state = q;
	iw_req_reset(q);
	iw_rsp_reset(q);
	return 0;
}

static void tell_end(struct iw_qp *q, enum iw_end how)
{
	const struct iwarp_user *user = q->user;

	q->user = NULL;
	if (user)
		user->ended(q->user_arg, how);
}

/* Gives up the stream and frees the connection's memory. */
static void let_go(struct iw_qp *q)
{
	iw_late_end(q);
	iw_late_forget(q);
	if (q->attached)
		q->iw->ops->released(q->iw->arg, q->qp, q->stream);
	q->attached = false;
	q->stream = NULL;
	q->life = LIFE_NONE;
	q->give_up_at = q->nudge_at = NEVER;
	free(q->tail);
	free(q->stash);
	q->tail = q->stash = NULL;
	q->tail_at = q->tail_end = q->stash_len = 0;
	tell_end(q, IW_END_US);
}

static void close_qp(struct qp *qp)
{
	let_go(iw_qp(qp));
	free(qp->tp.state);
	qp->tp.state = NULL;
}

struct stream *iwarp_stream(struct qp *qp)
{
	return iw_qp(qp)->stream;
}

/* --- attaching ----------------------------------------------------------- */

/* Sets the connection's fields; nothing uses them before the QP is in RTS. */
static int prepare_stream(struct iw_qp *q, struct stream *stream,
			  const struct iw_params *p, const struct iwarp_user *user,
			  void *arg)
{
	if (q->qp->state != IBV_QPS_INIT || q->stream || p->ird > IW_DEPTH_MAX ||
	    p->ord > IW_DEPTH_MAX)
		return -EINVAL;
	q->tail = calloc(1, MPA_MARKED_MAX);
	q->stash = calloc(1, MPA_MARKED_MAX);
	if (!q->tail || !q->stash) {
		let_go(q);
		return -ENOMEM;
	}
	q->stream = stream;
	q->p = *p;
	q->user = user;
	q->user_arg = arg;
	return 0;
}

static int attach_stream(struct qp *qp, struct stream *stream, const struct iw_params *p,
			 const struct iwarp_user *user, void *arg, uint64_t now)
	REQUIRES(qp->lock)
{
	const struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS,
		.max_rd_atomic = (uint8_t)p->ord,
		.max_dest_rd_atomic = (uint8_t)p->ird,
	};
	struct iw_qp *q;
	int rc;

	if (qp->transport != &iwarp_transport)
		return -EINVAL;
	q = iw_qp(qp);
	rc = prepare_stream(q, stream, p, user, arg);
	if (rc)
		return rc;
	turn_is_held(qp->core);
	rc = qp_modify_held(qp, &a,
			    IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC |
				    IBV_QP_MAX_DEST_RD_ATOMIC,
			    now);
	if (rc) {
		q->user = NULL;
		let_go(q);
		return rc;
	}
	/* The program's own rdma_connect() or rdma_accept() brings it there. */
	qp->ex.qp_base.state = IBV_QPS_RTS;
	/* The RTR goes out before the caller's next connection is asked for, however much
	 * other QPs have to send: to the responder it is what establishes this one. */
	if (p->initiator)
		(void)q->iw->ops->output(q->iw->arg, qp, now);
	return 0;
}

int iwarp_attach(struct qp *qp, struct stream *stream, const struct iw_params *p,
		 const struct iwarp_user *user, void *arg, uint64_t now)
{
	int rc;

	lock_take(&qp->lock);
	rc = attach_stream(qp, stream, p, user, arg, now);
	lock_give(&qp->lock);
	return rc;
}

void iw_ready(struct iw_qp *q)
{
	if (q->user)
		q->user->ready(q->user_arg);
}

static int enter_rts(struct iw_qp *q, enum ibv_qp_state from)
{
	int rc;

	if (from == IBV_QPS_RTS)
		return 0;
	if (!q->stream || q->attached) {
		log_info("QP 0x%06x: modify_qp refused: no connection is attached, "
			 "use rdma_cm",
			 q->qp->qpn);
		return -EINVAL;
	}
	rc = q->iw->ops->attached(q->iw->arg, q->qp, q->stream);
	if (rc)
		return rc;
	q->attached = true;
	q->fin_told = q->draining = q->closing = false;
	q->nudges = 0;
	q->late.told = false;
	q->nudge_at = NEVER;
	iw_req_reset(q);
	iw_rsp_reset(q);
	q->mulpdu = mpa_mulpdu(q->p.mss, q->p.markers_out);
	q->hold = !q->p.initiator;
	q->c.rtr_due = q->p.initiator && q->p.rtr != MPA_RTR_NONE;
	q->life = LIFE_OPEN;
	if (q->p.initiator)
		iw_ready(q);
	due_add(q->qp->core, q->qp);
	return 0;
}

/* --- ends ---------------------------------------------------------------- */

/* Begins nothing more; what has begun is still sent. */
static void enter_last(struct iw_qp *q, enum iw_end how)
{
	q->life = LIFE_LAST;
	q->target.have_recv = false; /* verbs flushes that receive */
	q->src.failed = false;
	iw_late_end(q);
	tell_end(q, how);
	due_add(q->qp->core, q->qp);
}

void iw_fail(struct iw_qp *q, int event, bool terminate, uint64_t now)
{
	iw_req_release(q, now);
	if (q->life == LIFE_OPEN) {
		q->c.term_due = terminate && !q->closing;
		enter_last(q, IW_END_ERROR);
	}
	qp_fail(q->qp, false, event, now);
}

/* Core may have put the QP into ERR: a completion overran its CQ. */
void iw_settle(struct iw_qp *q, uint64_t now)
{
	if (q->qp->state == IBV_QPS_ERR && q->life == LIFE_OPEN)
		iw_terminate(q, TERM_RDMAP_LOCAL, NULL, 0, NULL, -1, now);
}

static void over(struct iw_qp *q, enum iw_end how, uint64_t now) REQUIRES(q->qp->lock)
{
	iw_req_release(q, now);
	if (q->life == LIFE_OPEN)
		enter_last(q, how);
	if (q->life != LIFE_NONE)
		q->life = LIFE_OVER;
	qp_fail(q->qp, false, -1, now);
	due_add(q->qp->core, q->qp);
}

void iwarp_disconnect(struct qp *qp, uint64_t now)
{
	struct iw_qp *q = iw_qp(qp);

	qp_is_held(q->qp);
	over(q, IW_END_US, now);
}

void iwarp_hangup(struct qp *qp, int why, uint64_t now)
{
	struct iw_qp *q = iw_qp(qp);
	char peer[INET6_ADDRSTRLEN];

	qp_is_held(q->qp);
	iw_req_release(q, now);
	if (!why && q->life == LIFE_OPEN && q->stash_len > 0)
		why = -EPIPE; /* in the middle of an FPDU */
	if (q->life == LIFE_OPEN && why) {
		log_info("QP 0x%06x to %s, port %u: the TCP connection is lost: %s",
			 q->qp->qpn, addr_text(q->p.peer, peer), q->p.peer_port,
			 strerror(-why));
		if (qp->sq.tail != qp->sq.head)
			send_end(qp, &q->src, &q->c.s, IBV_WC_RETRY_EXC_ERR,
				 VERR_CONNECTION, now);
	}
	over(q, why ? IW_END_ERROR : q->closing ? IW_END_US : IW_END_PEER, now);
}

/* SQD: once all that was posted is sent and answered, no more requests of the peer are
 * accepted; once those accepted before are answered, FIN is sent. */
static void drain_sqd(struct iw_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	if (q->life != LIFE_OPEN || q->closing || q->c.rtr_due ||
	    !send_is_drained(q->qp, &q->c.s, true))
		return;
	q->draining = true;
	if (q->c.resource != q->resources.tail || q->tail_at != q->tail_end)
		return;
	q->closing = true;
	due_add(q->qp->core, q->qp); /* sends the FIN */
	q->give_up_at = now + CLOSING_NS;
	qp_drained(q->qp);
}

static uint64_t earliest(const struct iw_qp *q)
{
	uint64_t at = q->nudge_at < q->give_up_at ? q->nudge_at : q->give_up_at;

	if (q->late.waits && q->late.until < at)
		at = q->late.until;
	return q->held_until && q->held_until < at ? q->held_until : at;
}

static uint64_t run_timers(struct qp *qp, uint64_t now)
{
	struct iw_qp *q = iw_qp(qp);
	bool given_up;

	qp_is_held(q->qp);
	if (now >= q->held_until || qp->state != IBV_QPS_RTS || qp->core->round.hurry ||
	    qp->sq.head - qp->sq.tail != 1) {
		iw_req_release(q, now);
		iw_settle(q, now);
	}
	iw_late_run(q, now);
	drain_sqd(q, now);
	/* A peer that takes nothing must not delay a QP's end. */
	if (q->life == LIFE_LAST && q->give_up_at == NEVER)
		q->give_up_at = now + LAST_NS;
	if (!q->first || q->draining)
		q->nudge_at = NEVER;
	if (now >= q->nudge_at) {
		q->nudges++;
		q->nudge_at = NEVER;
		q->c.nudge_due = true;
	}
	given_up = silent_until(&qp->core->round, q->give_up_at, now);
	/* The responses had their second; the Terminate gets another. */
	if (given_up && q->c.term_due && q->c.resource != q->resources.tail) {
		q->resources.tail = q->c.resource;
		q->give_up_at = now + LAST_NS;
		given_up = false;
		due_add(qp->core, qp);
	}
	if (given_up && q->life == LIFE_OPEN)
		iw_fail(q, -1, false, now);
	if (given_up && q->life != LIFE_NONE)
		q->life = LIFE_OVER;
	if (q->life == LIFE_NONE || q->life == LIFE_OVER)
		return NEVER;
	return earliest(q);
}

enum iw_wish iwarp_wish(struct qp *qp)
{
	struct iw_qp *q = iw_qp(qp);

	if (q->life == LIFE_OVER)
		return IW_WISH_CLOSE;
	if ((q->life == LIFE_FIN || (q->life == LIFE_OPEN && q->closing)) &&
	    !q->fin_told) {
		q->fin_told = true;
		return IW_WISH_FIN;
	}
	return IW_WISH_NONE;
}

void iwarp_release(struct qp *qp)
{
	let_go(iw_qp(qp));
}

/* --- core's calls -------------------------------------------------------- */

static int enter_state(struct qp *qp, enum ibv_qp_state from, uint64_t now)
{
	struct iw_qp *q = iw_qp(qp);

	(void)now;
	switch (qp->state) {
	case IBV_QPS_RESET:
		let_go(q);
		iw_req_reset(q);
		iw_rsp_reset(q);
		return 0;
	case IBV_QPS_RTS:
		return enter_rts(q, from);
	case IBV_QPS_SQD:
		due_add(qp->core, qp);
		return 0;
	case IBV_QPS_ERR:
		if (q->life == LIFE_OPEN)
			enter_last(q, IW_END_US);
		return 0;
	case IBV_QPS_INIT:
		return 0;
	case IBV_QPS_RTR:
	case IBV_QPS_SQE:
	case IBV_QPS_UNKNOWN:
		return -EINVAL;
	}
	return -EINVAL;
}

static void describe_qp(const struct qp *qp, char *buf, size_t size)
{
	const struct iw_qp *q = iw_qp((struct qp *)qp);

	snprintf(buf, size, "{stream=%s}; segment size {segment=%zu}, CRC {crc=%s}",
		 !q->stream   ? "no connection"
		 : q->closing ? "connection is being closed"
			      : "connected",
		 q->mulpdu, q->p.crc ? "yes" : "no");
}

static void peer(const struct qp *qp, char *buf, size_t size)
{
	const struct iw_qp *q = iw_qp((struct qp *)qp);
	char ip[INET6_ADDRSTRLEN];

	if (!q->stream)
		return;
	snprintf(buf, size, "%s, port %u", addr_text(q->p.peer, ip), q->p.peer_port);
}

static bool put_output(struct qp *qp, struct batch *b, uint64_t now)
{
	struct iwarp *iw = iwarp_of(qp->core);

	(void)b;
	return iw->ops->output(iw->arg, qp, now);
}

const struct transport iwarp_transport = {
	.name = "iwarp",
	.stream = true,
	.output = put_output,
	.open = open_qp,
	.close = close_qp,
	.enter = enter_state,
	.run = run_timers,
	.describe = describe_qp,
	.peer = peer,
};
