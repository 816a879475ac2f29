/* SPDX-License-Identifier: BSD-2-Clause */
/* relay.c - requests that come to a target QP of XRC and name an SRQ of another
 * process: they are passed on to that process (carry.c) and answered here;
 * docs/dev/xrc.md.
 *
 * The waiting packets are a queue in PSN order.  The responder's epsn stays at the first
 * of them and moves on only when that one was executed, so every ACK, NAK and RNR NAK
 * says what it would say without other processes.
 *
 *   rsp.epsn                                     PSN of the packet to come next
 *   |  passed on, not known to be executed  |  held  |
 *
 * All packets that are passed on and not yet executed are with one process.  A packet for
 * another process waits behind them, since the order counts.  READs and atomics are
 * passed on alone. */
#include <stdlib.h>
#include <string.h>

#include "core/due.h"
#include "core/xrc.h"
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "ib/relay.h"
#include "ib/xrc_msg.h"
#include "sys/log.h"

enum {
	PASSED_MAX = 32,	  /* packets that the other process has at a time */
	TELL_EVERY = 8,		  /* it reports its progress after so many packets */
	STALE_NS = 250 * 1000000, /* after that long it seems not to run */
	/* between two looks for a receive, the first and the longest time */
	GAP_NS = 50000,
	GAP_MOST_NS = 1600000,
};

/* --- the queue ----------------------------------------------------------------- */

static struct held *at(struct relay *r, unsigned i)
{
	return &r->held[(r->first + i) % HELD];
}

static uint32_t end_of(const struct ib_qp *q)
{
	struct relay *r = q->relay;

	return r && r->n ? at(r, r->n - 1)->end : q->rsp.epsn;
}

static void pop(struct relay *r)
{
	r->first = (r->first + 1) % HELD;
	r->n--;
}

static void new_epoch(struct relay *r)
{
	r->seq = r->asked = 0;
	r->epoch++;
}

/* Drops the whole queue; the peer sends all of it again. */
static void drop_all(struct relay *r)
{
	r->n = r->passed = 0;
	r->until = r->again_at = 0;
	new_epoch(r);
}

/* Only SENDs and WRITEs are passed on together: a READ or atomic is passed on alone. */
static bool is_alone(const struct ib_pkt *pkt)
{
	return pkt->op->kind != IB_SEND && pkt->op->kind != IB_WRITE;
}

struct relay *relay_make(struct ib_qp *q)
{
	struct relay *r = calloc(1, sizeof(*r)); /* most of it is never touched */

	if (!r)
		return NULL;
	r->ending = ending_make(q->ib, q->qp->qpn);
	if (!r->ending) {
		free(r);
		return NULL;
	}
	r->q = q;
	r->life = ++q->ib->xrc.lives;
	/* unlike the ids of an earlier QP of this number */
	r->part.msg.id = r->life << 16;
	list_add_tail(&q->ib->xrc.relays, &r->node);
	q->relay = r;
	return r;
}

static void hold(struct ib_qp *q, const struct ib_pkt *pkt)
{
	struct relay *r = q->relay;
	struct held *h;

	if (r->n == HELD || pkt->payload_len > PAYLOAD) { /* the peer sends it again */
		count(q, IB_RX_STALE);
		return;
	}
	h = at(r, r->n);
	h->pkt = *pkt;
	h->pkt.payload = r->payload[h - r->held];
	memcpy(r->payload[h - r->held], pkt->payload, pkt->payload_len);
	h->end = psn_add(pkt->f.psn, rsp_npkts(q, pkt));
	r->n++;
}

/* --- out ------------------------------------------------------------------------- */

/* Does the other process owe an XRC_DONE?  Not each packet asks for one. */
static bool is_owed(const struct relay *r)
{
	return (int32_t)(r->asked - r->seq) > 0;
}

static void passed_on(struct relay *r, bool tell, uint64_t now)
{
	if (tell && !is_owed(r))
		r->since = now;
	r->passed++;
	if (tell)
		r->asked = r->seq + r->passed;
}

/* Passes h on to its process.  Returns 0, -EAGAIN or -ESRCH. */
static int pass_on(struct ib_qp *q, const struct held *h, uint64_t now)
{
	struct relay *r = q->relay;
	const struct ib_pkt *pkt = &h->pkt;
	const uint16_t slot = qpn_slot(pkt->f.srqn);
	struct ib_fields f = pkt->f;
	struct xrc_carry m = {
		.head = { .what = XRC_CARRY, .qpn = q->qp->qpn },
		.life = r->life,
		.epoch = r->epoch,
		.seq = r->seq + r->passed,
		.mtu = q->mtu,
		.access = q->qp->attr.qp_access_flags,
		.src_qpn = q->qp->attr.dest_qp_num,
		.sl = q->qp->path.sl,
	};
	uint8_t hdr[IB_HDR_MAX];
	struct iovec body[2] = {
		{ hdr, 0 },
		{ (void *)(uintptr_t)pkt->payload, pkt->payload_len },
	};
	int rc;

	m.tell = f.ackreq || ib_ends(pkt->op) || m.seq % TELL_EVERY == TELL_EVERY - 1;
	if (!xrcd_name(q->qp->xrcd, &m.name))
		return -ESRCH;
	f.pad = 0;
	body[0].iov_len = ib_build(hdr, &f);
	relay_meet(r, slot);
	rc = xrc_pass(q->ib, slot, &m, sizeof(m), body, 2);
	if (!rc)
		passed_on(r, m.tell, now);
	return rc;
}

static void refused_there(struct ib_qp *q, const struct ib_pkt *pkt, enum refusal why,
			  uint64_t now) REQUIRES(q->qp->lock)
{
	char from[IB_PEER_LEN];

	if (why == REFUSED_NO_RECV) {
		rnr_say(q, now);
		return;
	}
	log_info("QP 0x%06x: %s from %s, PSN %u, for SRQ 0x%06x of "
		 "another process: that process refuses it, or has no such SRQ",
		 q->qp->qpn, pkt->op->name, ib_peer_text(q, from), pkt->f.psn,
		 pkt->f.srqn);
	rsp_nak(q, why, now);
}

/* The first packet was not executed, and nothing behind it. */
static void give_up(struct ib_qp *q, enum refusal why, uint64_t now) REQUIRES(q->qp->lock)
{
	struct relay *r = q->relay;
	const struct ib_pkt pkt = at(r, 0)->pkt;

	drop_all(r);
	refused_there(q, &pkt, why, now);
}

/* Executes the first packet: it is for this process. */
static void do_here(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct relay *r = q->relay;
	const struct held h = *at(r, 0);

	pop(r);
	rsp_expected(q, &h.pkt, now);
	if (q->rsp.epsn == h.end && qp_receives(q->qp))
		return;
	q->rsp.late.followed = r->n > 0;
	drop_all(r);
}

/* The last packet that was passed on may not have asked for an XRC_DONE.  The next packet
 * in the queue waits for it, so it is asked for now. */
static void ask(struct ib_qp *q, uint64_t now)
{
	struct relay *r = q->relay;
	const struct xrc_ask m = {
		.head = { .what = XRC_ASK, .qpn = q->qp->qpn },
		.life = r->life,
		.epoch = r->epoch,
		.upto = r->seq + r->passed,
	};
	int rc;

	if (is_owed(r))
		return;
	rc = xrc_pass(q->ib, r->slot, &m, sizeof(m), NULL, 0);
	r->stuck = rc == -EAGAIN;
	if (r->stuck)
		xrc_again(q->ib);
	if (rc) /* if packets are with it, relay_gone() follows */
		return;
	r->asked = m.upto;
	r->since = now;
}

/* May the first packet be passed on?  What the SRQ's process can judge is judged
 * there. */
static bool begins(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct relay *r = q->relay;
	const struct ib_pkt *pkt = &at(r, 0)->pkt;
	enum refusal why = rsp_follows(q, pkt);
	bool dropped = false;

	if (!why && is_alone(pkt))
		why = rsp_make_room(q, &dropped);
	if (why)
		give_up(q, why, now);
	else if (dropped)
		drop_all(r);
	return !why && !dropped;
}

/* May pkt be passed on too, behind those that the process has already? */
static bool goes_along(struct relay *r, const struct ib_pkt *pkt)
{
	const struct ib_pkt *last = &at(r, r->passed - 1)->pkt;
	bool goes_on = pkt->op->place == IB_MIDDLE || pkt->op->place == IB_LAST;

	return r->passed < PASSED_MAX && qpn_slot(pkt->f.srqn) == r->slot &&
	       !is_alone(pkt) && !is_alone(last) && ib_may_follow(last->op, pkt->op) &&
	       (!goes_on || pkt->f.srqn == last->f.srqn);
}

/* Passes on or executes one more packet.  Returns false if nothing more can go now. */
static bool step(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct relay *r = q->relay;
	struct held *h = at(r, r->passed);
	int rc;

	if (r->passed == 0 && !rsp_is_abroad(q, h->pkt.f.srqn)) {
		do_here(q, now);
		return true;
	}
	if (r->passed && !goes_along(r, &h->pkt)) {
		ask(q, now);
		return false;
	}
	if (r->passed == 0 && !begins(q, now))
		return false;
	if (r->slot != qpn_slot(h->pkt.f.srqn)) /* each process counts seq from 0 */
		new_epoch(r);
	r->slot = qpn_slot(h->pkt.f.srqn);
	rc = pass_on(q, h, now);
	r->stuck = rc == -EAGAIN;
	if (r->stuck)
		xrc_again(q->ib);
	else if (rc && r->passed == 0)
		give_up(q, REFUSED_SRQ, now);
	return !rc; /* if packets are with it, relay_gone() follows */
}

static void go_on(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	while (!q->relay->again_at && q->relay->n > q->relay->passed && step(q, now))
		;
}

/* --- packets from the peer --------------------------------------------------------- */

/* The peer repeats a packet that is in the queue, since its answer is late.  If the other
 * process seems not to run, an RNR NAK makes the peer wait. */
static void said_again(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	struct relay *r = q->relay;

	count(q, IB_RX_DUPLICATE);
	if (is_owed(r) && now - r->since > STALE_NS)
		rsp_rnr(q);
	else if (r->passed && pkt->f.ackreq) /* the first copy may not have had AckReq */
		ask(q, now);
}

bool relay_takes(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	bool busy = q->relay && q->relay->n;
	uint32_t psn = pkt->f.psn;

	qp_is_held(q->qp);
	if (!busy && (psn != q->rsp.epsn || !rsp_is_abroad(q, pkt->f.srqn)))
		return false;
	if (!q->relay && !relay_make(q))
		return true; /* the peer sends it again */
	if (psn_diff(psn, q->rsp.epsn) < 0)
		return false;
	if (psn_diff(psn, end_of(q)) > 0) {
		rsp_out_of_order(q);
	} else if (psn_diff(psn, end_of(q)) < 0) {
		said_again(q, pkt, now);
	} else {
		rnr_end(q); /* of a message that this one takes the place of */
		hold(q, pkt);
		go_on(q, now);
	}
	return true;
}

/* --- messages from the other process
 * ------------------------------------------------- */

/* There was no receive for the first packet.  The other process does not say when one is
 * posted, so the packet is passed on again, from time to time.  Returns false if the peer
 * is to be told. */
static bool awaits(struct ib_qp *q, uint64_t now)
{
	struct relay *r = q->relay;

	if (!q->ib->late_ns || (r->until && now >= r->until))
		return false;
	if (!r->until) {
		r->until = now + rnr_begin(q, &at(r, 0)->pkt);
		r->gap = GAP_NS;
	}
	r->passed = 0;
	new_epoch(r);
	r->again_at = now + r->gap < r->until ? now + r->gap : r->until;
	r->gap = 2 * r->gap < GAP_MOST_NS ? 2 * r->gap : GAP_MOST_NS;
	due_add(q->qp->core, q->qp); /* sets the timer */
	return true;
}

uint64_t relay_run(struct ib_qp *q, uint64_t now)
{
	struct relay *r = q->relay;

	qp_is_held(q->qp);
	if (r->again_at && now >= r->again_at) {
		r->again_at = 0;
		go_on(q, now);
	}
	return r->again_at ? r->again_at : NEVER;
}

static void done(struct ib_qp *q, uint16_t slot, const struct xrc_done *m, uint64_t now)
	REQUIRES(q->qp->lock)
{
	struct relay *r = q->relay;
	const uint32_t seq = r->seq;
	uint32_t n = m->done - seq;

	if (m->life != r->life || m->epoch != r->epoch || slot != r->slot ||
	    n > r->passed || m->refused > XRC_OVERRUN ||
	    (m->refused && m->refused != XRC_OVERRUN && n == r->passed))
		return;
	for (; n && qp_receives(q->qp); n--) {
		const struct ib_pkt pkt = at(r, 0)->pkt;

		pop(r);
		r->passed--;
		r->seq++;
		rsp_carried(q, &pkt, m->orig, now);
	}
	r->since = now;
	if (m->done != seq)
		r->until = 0;
	if (m->refused == XRC_OVERRUN) {
		drop_all(r);
		ib_fail(q, false, IBV_EVENT_QP_FATAL, now);
	} else if (m->refused && (m->refused != REFUSED_NO_RECV || !awaits(q, now))) {
		give_up(q, (enum refusal)m->refused, now);
	} else {
		go_on(q, now);
	}
}

static void said(struct ib_qp *q, uint16_t slot, const void *buf, size_t len,
		 uint64_t now) REQUIRES(q->qp->lock)
{
	struct xrc_head head;
	struct xrc_done d;
	struct xrc_data b;

	memcpy(&head, buf, sizeof(head));
	if (head.what == XRC_DONE && len == sizeof(d)) {
		memcpy(&d, buf, sizeof(d));
		done(q, slot, &d, now);
	} else if (head.what == XRC_DATA && len >= sizeof(b)) {
		memcpy(&b, buf, sizeof(b));
		fetch_came(q, slot, &b, (const uint8_t *)buf + sizeof(b),
			   len - sizeof(b));
	}
}

void relay_heard(struct ib *ib, uint16_t slot, const void *buf, size_t len, uint64_t now)
{
	struct xrc_head head;
	struct ib_qp *q;
	struct qp *qp;

	memcpy(&head, buf, sizeof(head));
	turn_is_held(ib->core);
	qp = qp_find(ib->core, head.qpn);
	if (!qp || qp->transport != &ib_transport)
		return;
	q = ib_qp(qp);
	lock_take(&qp->lock);
	qp_is_held(q->qp);
	if (q->relay)
		said(q, slot, buf, len, now);
	ib_settle(q);
	lock_give(&qp->lock);
}

static void each(struct ib *ib, void (*fn)(struct ib_qp *q, uint16_t slot, uint64_t now),
		 uint16_t slot, uint64_t now)
{
	list_for_safe(n, &ib->xrc.relays)
	{
		struct ib_qp *q = container_of(n, struct relay, node)->q;
		struct qp *qp = q->qp;

		lock_take(&qp->lock);
		fn(q, slot, now);
		ib_settle(q);
		lock_give(&qp->lock);
	}
}

static void leave(struct ib_qp *q, uint16_t slot, uint64_t now)
{
	struct relay *r = q->relay;

	qp_is_held(q->qp);
	r->met[slot / 64] &= ~(1ull << slot % 64);
	fetch_gone(q, slot);
	if (r->passed && r->slot == slot)
		give_up(q, REFUSED_SRQ, now);
}

void relay_gone(struct ib *ib, uint16_t slot, uint64_t now)
{
	each(ib, leave, slot, now);
	endings_gone(ib, slot);
}

/* --- the end, and repeating what was refused ---------------------------------------- */

static void retry(struct ib_qp *q, uint16_t slot, uint64_t now)
{
	struct relay *r = q->relay;

	(void)slot;
	qp_is_held(q->qp);
	fetch_again(q);
	if (r->stuck) {
		r->stuck = false;
		go_on(q, now);
	}
}

void relay_again(struct ib *ib, uint64_t now)
{
	endings_again(ib);
	each(ib, retry, 0, now);
}

static bool is_idle(const struct relay *r)
{
	uint64_t any = r->n;

	for (unsigned i = 0; i < SLOT_WORDS; i++)
		any |= r->met[i];
	return !any;
}

void relay_stop(struct ib_qp *q)
{
	struct relay *r = q->relay;

	if (!r || is_idle(r))
		return;
	ending_say(q->ib, r->ending, r->life, r->met);
	memset(r->met, 0, sizeof(r->met));
	drop_all(r);
	r->stuck = false;
	r->life = ++q->ib->xrc.lives;
	r->epoch = 0;
	if (!q->rsp.nak_due) /* otherwise the answers before the NAK go out too */
		r->part.state = NOTHING;
}

void relay_free(struct ib_qp *q)
{
	relay_stop(q);
	if (!q->relay)
		return;
	list_del(&q->relay->node);
	ending_let_go(q->relay->ending);
	free(q->relay);
	q->relay = NULL;
}
