/* SPDX-License-Identifier: BSD-2-Clause */
/* on_lane.h - what a QP on a lane does in place of, or besides, what it does on a link
 * (docs/dev/lane.md): lane.c, lane_in.c, lane_ref.c, lane_send.c, lane_wr.c. */
#ifndef IB_ON_LANE_H
#define IB_ON_LANE_H

#include "ib/ib_qp.h"

/* Writes the responder's packet e to the lane.  0, -ENOBUFS (q waits for room) or
 * -EFAULT. */
int lane_emit(struct ib_qp *q, const struct emit *e);
/* Writes the requester's packet e to the lane.  Returns as lane_emit(). */
int lane_request(struct ib_qp *q, const struct emit *e);
/* The lane has no room for a request: q waits, and its timers start. */
void lane_is_full(struct ib_qp *q, uint64_t now);
/* Puts q in line for room on the lane, for a request.  full: as qp_wait_for_lane(). */
void lane_no_room(struct ib_qp *q, bool full);
/* The timers are set: notes how far the peer has got, for lane_is_silent(). */
void lane_watch(struct ib_qp *q);
/* Has the peer done nothing since lane_watch() that could explain why no answer comes? */
bool lane_is_silent(struct ib_qp *q);
/* Has the peer read all packets that q's requester has written? */
bool lane_is_read(struct ib_qp *q);
/* Has q something to send that the lane has no room for, or is the lane not up yet? */
bool lane_waits(const struct ib_qp *q);
/* As req_run() for a dead lane or an unreliable QP; returns false for all others. */
bool lane_run(struct ib_qp *q, uint64_t now, uint64_t *next) REQUIRES(q->qp->lock);
/* q's path was set or changed: computes its route and words. */
void lane_find_route(struct ib_qp *q);
/* Puts q into the export table, or takes it out, as its state demands. */
void lane_show(struct ib_qp *q);
/* q leaves the export table: tells the peer by an ACK what was executed, since the word
 * is for the next QP of this number. */
void lane_hide(struct ib_qp *q);
/* All requests before rsp.epsn were executed: publishes that in the QP's word, which is
 * the ACK.  asked: the request asks for an ACK.  answered: a response packet goes out
 * that acknowledges it as well. */
void lane_tell(struct ib_qp *q, bool asked, bool answered);
/* The packets sent so far ask for an ACK: the lane lists the QP as waiting for one. */
static inline void lane_expects(struct ib_qp *q)
{
	struct qp *qp = q->qp;

	q->req.asked = q->req.at.psn;
	if (list_empty(&qp->lane.ack))
		list_add_tail(&qp->lane.via->unanswered, &qp->lane.ack);
}
/* Completes what the peer's word says was executed.  False: nothing new. */
bool lane_hear(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* Calls lane_hear() if any packet of q is outstanding. */
static inline void lane_hear_any(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	if (q->qp->lane.via && q->req.s.una != q->req.at.max_psn && q->qp->reliable)
		(void)lane_hear(q, now);
}
/* Does this packet of w ask for an ACK?  last: it is the last one of its message. */
bool lane_asks_for_ack(const struct ib_qp *q, struct send_cursor *at,
		       const struct swqe *w, bool last);
/* Sends w, which is at the cursor and has not begun, if it is a plain SEND of one
 * packet.  Returns STEP_SENT, STEP_WAIT (no room), or STEP_GO if the general code must
 * take it. */
enum step lane_send(struct planning *p, struct swqe *w) REQUIRES(p->q->qp->lock);
/* Copies w, which is at the cursor, directly to or from the peer's memory.  Returns
 * STEP_NEXT if some or all of it was copied, STEP_WAIT if earlier packets must be
 * executed first, STEP_GO if packets must carry it. */
enum step lane_directly(struct planning *p, struct swqe *w) REQUIRES(p->q->qp->lock);
/* A region of the peer was used once more: one that is used a lot is worth mapping into
 * this process. */
void lane_used(struct lane *l, uint32_t key);
/* Should w, a SEND of one packet, go by reference: is it long enough, can the peer copy
 * from this process's memory, and has the peer refused no such SEND? */
bool lane_wants_ref(const struct ib_qp *q, const struct swqe *w);
/* Makes e, a packet of w, a SEND by reference, if the peer can copy from this process's
 * memory and that is worth its while. */
void lane_by_ref(const struct planning *p, const struct swqe *w, struct emit *e);
/* Executes a packet of a SEND by reference, as rsp_send() does. */
enum refusal lane_fetch(struct ib_qp *q, const struct ib_pkt *pkt) REQUIRES(q->qp->lock);
/* The peer could not fetch the payload of packet psn: sends it again, with its payload.
 * Returns false if the packet carried its payload already. */
bool lane_by_value(struct ib_qp *q, uint32_t psn, uint64_t now) REQUIRES(q->qp->lock);
/* The peer found no receive for packet psn, and now has one: sends the packet again, and
 * all behind it.  Returns false if the peer has said that for too long. */
bool lane_again(struct ib_qp *q, uint32_t psn, uint64_t now) REQUIRES(q->qp->lock);
/* As struct transport's posted and at_once (verbs/transport.h). */
bool lane_posted(struct qp *qp, uint64_t *next);
struct ibv_send_wr *lane_at_once(struct qp *qp, struct ibv_send_wr *wr);

#endif
