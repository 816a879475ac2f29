/* SPDX-License-Identifier: BSD-2-Clause */
/* relay.c - requests that come to a target QP of XRC and name an SRQ of another
 * process: that process executes them (carry.c), and they are answered here;
 * docs/dev/xrc.md.
 *
 * The waiting packets are a queue in PSN order.  The responder's epsn stays at the first
 * of them and moves on only when that one was executed, so every ACK, NAK and RNR NAK
 * says what it would say without other processes.
 *
 * A relay asks one question at a time: "execute the first packets of the queue"
 * (XRC_CARRY), or "send a part of a READ response" (XRC_FETCH).  It repeats the question
 * until it is answered, so nobody else has to keep what a full connection refused. */
#include <stdlib.h>
#include <string.h>

#include "ib/ib.h"
#include "ib/relay.h"
#include "ib/xrc_msg.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "verbs/due.h"
#include "verbs/xrc.h"

enum {
	HELD = 128, /* packets in the queue */
	SLOT_WORDS = XRC_SLOTS / 64,
	STALE_NS = 250 * 1000000, /* after that long the other process seems not to run */
	FULL_NS = 1000000,	  /* a full connection is tried again after that */
	/* between two times that a question is put, the first and the longest */
	REPEAT_NS = 10 * 1000000,
	REPEAT_MOST_NS = 1280 * 1000000,
	/* between two looks for a receive, the first and the longest */
	GAP_NS = 50000,
	GAP_MOST_NS = 1600000,
};

enum question { NOTHING, CARRY, FETCH };

struct held {
	struct ib_pkt pkt; /* its payload lies in `packet` */
	struct xrc_packet packet;
	uint32_t end; /* the PSN behind it */
};

/* The XRC_ENDs of a QP.  They outlive it, and its relay, until all were said. */
struct ends {
	struct list node; /* xrc_of(ib)->ends */
	struct ib_qp *q;  /* NULL: that QP is gone */
	uint32_t qpn;
	uint32_t life;		     /* the present one */
	uint64_t unsaid[SLOT_WORDS]; /* slots that are to be told that lives have ended */
};

struct relay {
	struct ends *ends;
	struct held held[HELD];
	unsigned first, n;   /* the queue is held[first, first + n) */
	enum question asked; /* and not answered yet */
	uint16_t slot;	     /* of the process that was asked */
	uint32_t id;
	unsigned run; /* CARRY: how many packets */
	uint64_t since, repeat_at, repeat_after;
	/* The SRQ had no receive for the first packet: it is passed on again at again_at,
	 * and later after gap; until: then the peer is told.  0: none. */
	uint64_t until, again_at, gap;
	/* The part of the response to the oldest READ that is to go out next. */
	struct {
		enum { NONE, WANTED, HERE, REFUSED } state;
		enum refusal why;
		uint32_t psn; /* of its first packet */
		struct xrc_fetch msg;
		uint8_t bytes[XRC_BYTES_MAX];
	} part;
	uint64_t met[SLOT_WORDS]; /* slots that were asked in this life */
};

/* --- the queue ----------------------------------------------------------------- */

static struct held *held_at(struct relay *r, unsigned i)
{
	return &r->held[(r->first + i) % HELD];
}

static uint32_t end_of(const struct ib_qp *q)
{
	struct relay *r = relay_of(q);

	return r && r->n ? held_at(r, r->n - 1)->end : q->rsp.epsn;
}

static void pop(struct relay *r)
{
	r->first = (r->first + 1) % HELD;
	r->n--;
}

/* Drops the whole queue; the peer sends all of it again. */
static void drop_all(struct relay *r)
{
	r->n = 0;
	r->until = r->again_at = 0;
	if (r->asked == CARRY)
		r->asked = NOTHING;
}

static struct relay *relay_make(struct ib_qp *q)
{
	struct ib_xrc *x = xrc_of(q->ib);
	struct relay *r; /* most of it is never touched */
	struct ends *e;

	if (!x)
		return NULL;
	r = turn_alloc(sizeof(*r));
	e = turn_alloc(sizeof(*e));
	if (!r || !e) {
		turn_free(r);
		turn_free(e);
		return NULL;
	}
	r->ends = e;
	e->q = q;
	e->qpn = q->qp->qpn;
	e->life = ++x->lives;
	list_add_tail(&x->ends, &e->node);
	q->own = r;
	return r;
}

static void hold(struct ib_qp *q, const struct ib_pkt *pkt)
{
	struct relay *r = relay_of(q);
	struct held *h = held_at(r, r->n);
	struct ib_fields f = pkt->f;
	size_t head;

	if (r->n == HELD || pkt->payload_len > sizeof(h->packet.bytes) - IB_HDR_MAX) {
		count(q, IB_RX_STALE); /* the peer sends it again */
		return;
	}
	f.pad = 0;
	head = ib_build(h->packet.bytes, &f);
	memcpy(h->packet.bytes + head, pkt->payload, pkt->payload_len);
	h->packet.len = (uint32_t)(head + pkt->payload_len);
	h->pkt = *pkt;
	h->pkt.payload = h->packet.bytes + head;
	h->end = psn_add(pkt->f.psn, rsp_npkts(q, pkt));
	r->n++;
}

/* --- questions ------------------------------------------------------------------- */

static int pass_run(struct ib_qp *q)
{
	struct relay *r = relay_of(q);
	struct xrc_carry m = {
		.head = { .what = XRC_CARRY,
			  .qpn = q->qp->qpn,
			  .life = r->ends->life,
			  .id = r->id },
		.mtu = q->mtu,
		.access = q->qp->attr.qp_access_flags,
		.src_qpn = q->qp->attr.dest_qp_num,
		.sl = q->qp->path.sl,
	};
	struct iovec part[1 + XRC_RUN_MAX] = { { &m, sizeof(m) } };

	if (!xrcd_name(q->qp->xrc.domain, &m.name))
		return -ESRCH;
	for (unsigned i = 0; i < r->run; i++) {
		struct xrc_packet *p = &held_at(r, i)->packet;

		part[i + 1] =
			(struct iovec){ p, offsetof(struct xrc_packet, bytes) + p->len };
	}
	return xrc_pass(q->ib, r->slot, part, r->run + 1);
}

/* Puts the question, for the first time or again.  Returns false if nobody can answer
 * it. */
static bool put_question(struct ib_qp *q, uint64_t now)
{
	struct relay *r = relay_of(q);
	const struct iovec fetch = { &r->part.msg, sizeof(r->part.msg) };
	int rc = r->asked == CARRY ? pass_run(q) : xrc_pass(q->ib, r->slot, &fetch, 1);

	if (rc == 0 && r->asked == CARRY)
		r->met[r->slot / 64] |= 1ull << r->slot % 64;
	if (rc == -EAGAIN) {
		r->repeat_at = now + FULL_NS;
	} else {
		r->repeat_at = now + r->repeat_after;
		if (r->repeat_after < REPEAT_MOST_NS)
			r->repeat_after *= 2;
	}
	due_add(q->qp->core, q->qp); /* sets the timer */
	return rc == 0 || rc == -EAGAIN;
}

static bool begin_question(struct ib_qp *q, enum question what, uint32_t srqn,
			   uint64_t now)
{
	struct relay *r = relay_of(q);

	r->asked = what;
	r->slot = qpn_slot(srqn);
	r->id++;
	r->since = now;
	r->repeat_after = REPEAT_NS;
	if (what == FETCH)
		r->part.msg.head.id = r->id;
	return put_question(q, now);
}

static void fetch_failed(struct ib_qp *q, enum refusal why)
{
	struct relay *r = relay_of(q);

	r->part.state = REFUSED;
	r->part.why = why;
	due_add(q->qp->core, q->qp);
}

static void begin_fetch(struct ib_qp *q, uint64_t now)
{
	if (begin_question(q, FETCH, relay_of(q)->part.msg.srqn, now))
		return;
	relay_of(q)->asked = NOTHING;
	fetch_failed(q, REFUSED_SRQ);
}

/* The first packet was not executed, and nothing behind it. */
static void give_up(struct ib_qp *q, enum refusal why, uint64_t now) REQUIRES(q->qp->lock)
{
	const struct ib_pkt pkt = held_at(relay_of(q), 0)->pkt;
	char from[IB_PEER_LEN];

	drop_all(relay_of(q));
	if (why == REFUSED_NO_RECV) {
		rnr_say(q, now);
		return;
	}
	log_info("QP 0x%06x: %s from %s, PSN %u, for SRQ 0x%06x of "
		 "another process: that process refuses it, or has no such SRQ",
		 q->qp->qpn, pkt.op->name, ib_peer_text(q, from), pkt.f.psn, pkt.f.srqn);
	rsp_nak(q, why, now);
}

/* Executes the first packet: it is for this process. */
static void do_here(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct relay *r = relay_of(q);
	const struct held *h = held_at(r, 0);
	const uint32_t end = h->end;

	pop(r); /* nothing is held meanwhile, so h stays as it is */
	rsp_expected(q, &h->pkt, now);
	if (q->rsp.epsn == end && qp_receives(q->qp))
		return;
	q->rsp.late.followed = r->n > 0;
	drop_all(r);
}

static bool is_message(const struct ib_pkt *pkt)
{
	return pkt->op->kind == IB_SEND || pkt->op->kind == IB_WRITE;
}

/* May the first packet be passed on?  What the SRQ's process can judge is judged
 * there. */
static bool may_begin(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	const struct ib_pkt *pkt = &held_at(relay_of(q), 0)->pkt;
	enum refusal why = xrc_follows(q, pkt);
	bool dropped = false;

	if (!why && !is_message(pkt))
		why = rsp_make_room(q, &dropped);
	if (why)
		give_up(q, why, now);
	else if (dropped)
		drop_all(relay_of(q));
	return !why && !dropped;
}

/* How many packets can be passed on together: those of SENDs and WRITEs for one process.
 * A READ or atomic, whose answer needs room, goes alone, and what the target QP judges
 * (may_begin) comes first in a run. */
static unsigned run_length(struct relay *r)
{
	const struct held *last = held_at(r, 0);
	size_t bytes = last->packet.len;
	unsigned n = 1;

	for (; n < r->n && n < XRC_RUN_MAX; n++) {
		const struct held *h = held_at(r, n);

		bytes += h->packet.len;
		if (!is_message(&last->pkt) || !is_message(&h->pkt) ||
		    qpn_slot(h->pkt.f.srqn) != qpn_slot(last->pkt.f.srqn) ||
		    !ib_may_follow(last->pkt.op, h->pkt.op) ||
		    (!ib_begins(h->pkt.op) && h->pkt.f.srqn != last->pkt.f.srqn) ||
		    bytes > XRC_BYTES_MAX)
			break;
		last = h;
	}
	return n;
}

/* Asks or does what comes next, unless an answer or a receive is waited for. */
static void go_on(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct relay *r = relay_of(q);

	if (!r->asked && r->part.state == WANTED)
		begin_fetch(q, now);
	while (!r->asked && !r->again_at && r->n > 0) {
		const uint32_t srqn = held_at(r, 0)->pkt.f.srqn;

		if (!is_abroad(q, srqn)) {
			do_here(q, now);
		} else if (may_begin(q, now)) {
			r->run = run_length(r);
			if (!begin_question(q, CARRY, srqn, now))
				give_up(q, REFUSED_SRQ, now);
		}
	}
}

/* --- packets from the peer --------------------------------------------------------- */

/* The copy that waits may not ask for an ACK, as pkt does. */
static void note_ackreq(struct relay *r, const struct ib_pkt *pkt)
{
	for (unsigned i = 0; pkt->f.ackreq && i < r->n; i++)
		if (held_at(r, i)->pkt.f.psn == pkt->f.psn)
			held_at(r, i)->pkt.f.ackreq = true;
}

bool relay_takes(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	bool busy = relay_of(q) && relay_of(q)->n;
	uint32_t psn = pkt->f.psn;

	qp_is_held(q->qp);
	if (!busy && (psn != q->rsp.epsn || !is_abroad(q, pkt->f.srqn) || !xrc_of(q->ib)))
		return false;
	if (!relay_of(q) && !relay_make(q))
		return true; /* the peer sends it again */
	if (psn_diff(psn, q->rsp.epsn) < 0)
		return false;
	if (psn_diff(psn, end_of(q)) > 0) {
		rsp_out_of_order(q);
	} else if (psn_diff(psn, end_of(q)) < 0) {
		count(q, IB_RX_DUPLICATE); /* its answer is late */
		note_ackreq(relay_of(q), pkt);
		if (relay_of(q)->asked == CARRY && now - relay_of(q)->since > STALE_NS)
			rsp_rnr(q); /* makes the peer wait */
	} else {
		rnr_end(q); /* of a message that this one takes the place of */
		hold(q, pkt);
		go_on(q, now);
	}
	return true;
}

/* --- answers ------------------------------------------------------------------------ */

/* There was no receive for the first packet.  The other process does not say when one is
 * posted, so the packet is passed on again, from time to time.  Returns false if the peer
 * is to be told. */
static bool await_recv(struct ib_qp *q, uint64_t now)
{
	struct relay *r = relay_of(q);

	if (!q->qp->core->recv_wait_ns || (r->until && now >= r->until))
		return false;
	if (!r->until) {
		struct recv_wait w;

		rnr_begin(q, &held_at(r, 0)->pkt, &w, now);
		r->until = w.until;
		r->gap = GAP_NS;
	}
	r->again_at = now + r->gap < r->until ? now + r->gap : r->until;
	r->gap = 2 * r->gap < GAP_MOST_NS ? 2 * r->gap : GAP_MOST_NS;
	due_add(q->qp->core, q->qp);
	return true;
}

/* Another process has executed pkt: accepts it and makes its answer pending.  orig: the
 * result of an atomic. */
static void carried(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t orig,
		    uint64_t now) REQUIRES(q->qp->lock)
{
	struct resource r = {
		.psn = q->rsp.epsn,
		.npkts = rsp_npkts(q, pkt),
		.msn = psn_add(q->rsp.msn, 1),
		.srqn = pkt->f.srqn,
		.orig = orig,
	};

	rsp_arrived(&q->rsp);
	q->rsp.srqn = pkt->f.srqn;
	rsp_accept(q, pkt, r.npkts);
	switch ((enum ib_kind)pkt->op->kind) {
	case IB_SEND:
	case IB_WRITE:
		ack_ask(q, pkt, now);
		return;
	case IB_READ:
		r.va = pkt->f.va;
		r.rkey = pkt->f.rkey;
		r.len = pkt->f.dma_len;
		break;
	case IB_CMP_SWAP:
	case IB_FETCH_ADD:
		r.atomic = true;
		rsp_save_atomic(q, r.psn, orig);
		break;
	case IB_ATOMIC_WRITE:
	case IB_FLUSH:
	case IB_READ_RESP:
	case IB_ATOMIC_RESP:
	case IB_ACK:
	case IB_CONGESTION:
	case IB_KINDS:
		break;
	}
	rsp_add_pending(q, &r);
}

static void take_done(struct ib_qp *q, const struct xrc_done *m, uint64_t now)
	REQUIRES(q->qp->lock)
{
	struct relay *r = relay_of(q);
	const bool all = m->refused == ACCEPTED || m->refused == XRC_OVERRUN;

	if (m->done > r->run || m->refused > XRC_OVERRUN ||
	    (m->refused == ACCEPTED && m->done < r->run) || (!all && m->done == r->run))
		return;
	r->asked = NOTHING;
	for (unsigned n = m->done; n && qp_receives(q->qp); n--) {
		const struct held *h = held_at(r, 0);

		pop(r);
		carried(q, &h->pkt, m->orig, now);
	}
	if (m->done)
		r->until = 0;
	if (m->refused == XRC_OVERRUN) {
		drop_all(r);
		ib_fail(q, false, IBV_EVENT_QP_FATAL, now);
	} else if (m->refused && (m->refused != REFUSED_NO_RECV || !await_recv(q, now))) {
		give_up(q, (enum refusal)m->refused, now);
	}
}

static void take_data(struct ib_qp *q, const struct xrc_data *m, const uint8_t *bytes,
		      size_t len)
{
	struct relay *r = relay_of(q);

	if (m->refused >= REFUSALS || len != (m->refused ? 0 : r->part.msg.len))
		return;
	r->asked = NOTHING;
	if (m->refused) {
		fetch_failed(q, (enum refusal)m->refused);
		return;
	}
	r->part.state = HERE;
	memcpy(r->part.bytes, bytes, len);
	due_add(q->qp->core, q->qp);
}

static void take_answer(struct ib_qp *q, uint16_t slot, const void *buf, size_t len,
			uint64_t now) REQUIRES(q->qp->lock)
{
	const struct relay *r = relay_of(q);
	struct xrc_head head;
	struct xrc_done d;
	struct xrc_data b;

	memcpy(&head, buf, sizeof(head));
	if (slot != r->slot || head.id != r->id ||
	    head.life != (r->asked == FETCH ? r->part.msg.head.life : r->ends->life))
		return;
	if (r->asked == CARRY && head.what == XRC_DONE && len == sizeof(d)) {
		memcpy(&d, buf, sizeof(d));
		take_done(q, &d, now);
	} else if (r->asked == FETCH && head.what == XRC_DATA && len >= sizeof(b)) {
		memcpy(&b, buf, sizeof(b));
		take_data(q, &b, (const uint8_t *)buf + sizeof(b), len - sizeof(b));
	}
	go_on(q, now);
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
	if (relay_of(q))
		take_answer(q, slot, buf, len, now);
	ib_settle(q);
	lock_give(&qp->lock);
}

/* --- a part of a READ's answer --------------------------------------------------------
 */

/* The length in bytes of the part that begins at packet `from` of t. */
static uint32_t part_len(const struct ib_qp *q, const struct resource *t, uint32_t from)
{
	const uint32_t most = XRC_BYTES_MAX / q->mtu * q->mtu;
	const uint32_t left = t->len - from * q->mtu;

	return left < most ? left : most;
}

/* Is the part that t needs next the one that is here or asked for?  *skip: packets of
 * that part which come before it. */
static bool is_part(const struct ib_qp *q, const struct resource *t, uint32_t *skip)
{
	const struct relay *r = relay_of(q);
	const struct xrc_fetch *m = &r->part.msg;

	*skip = psn_off(psn_add(t->psn, t->sent), r->part.psn);
	return r->part.state != NONE && *skip < (m->len - 1) / q->mtu + 1 &&
	       *skip <= t->sent && m->va == t->va + (t->sent - *skip) * q->mtu &&
	       m->len == part_len(q, t, t->sent - *skip) && m->rkey == t->rkey &&
	       m->srqn == t->srqn;
}

static void want(struct ib_qp *q, const struct resource *t, uint64_t now)
{
	struct relay *r = relay_of(q);

	r->part.msg = (struct xrc_fetch){
		.head = { .what = XRC_FETCH, .qpn = q->qp->qpn, .life = r->ends->life },
		.srqn = t->srqn,
		.va = t->va + t->sent * q->mtu,
		.rkey = t->rkey,
		.len = part_len(q, t, t->sent),
	};
	(void)xrcd_name(q->qp->xrc.domain, &r->part.msg.name);
	r->part.psn = psn_add(t->psn, t->sent);
	r->part.state = WANTED;
	if (r->asked != CARRY) /* an earlier part is not wanted any more */
		begin_fetch(q, now);
}

int relay_bytes(struct ib_qp *q, const struct resource *t, uint64_t now,
		struct rsp_bytes *out, enum refusal *why)
{
	struct relay *r = relay_of(q) ? relay_of(q) : relay_make(q);
	uint32_t skip = 0;

	*why = REFUSED_SRQ;
	if (!r)
		return -EACCES;
	out->span.ours = true;
	out->span.n = t->len > 0;
	out->span.v[0] = (struct piece){ r->part.bytes, t->len - t->sent * q->mtu };
	out->first = t->sent;
	out->end = t->sent + 1;
	if (t->len == 0) /* a READ of 0 bytes, or an atomic write: nothing to fetch */
		return 0;
	if (!is_part(q, t, &skip)) {
		want(q, t, now);
		skip = 0;
	}
	if (r->part.state == REFUSED) {
		r->part.state = NONE;
		*why = r->part.why;
		return -EACCES;
	}
	if (r->part.state != HERE)
		return -EAGAIN;
	out->span.v[0].host += (size_t)skip * q->mtu;
	out->end = t->sent + (r->part.msg.len - 1) / q->mtu + 1 - skip;
	return 0;
}

static void forget_part(struct ib_qp *q)
{
	struct relay *r = relay_of(q);

	r->part.state = NONE;
	if (r->asked != FETCH)
		return;
	r->asked = NOTHING;
	due_add(q->qp->core, q->qp); /* for what has waited meanwhile */
}

void relay_read_done(struct ib_qp *q)
{
	if (relay_of(q))
		forget_part(q);
}

bool relay_waits(const struct ib_qp *q)
{
	return relay_of(q) && q->rsp.resources && relay_of(q)->part.state == WANTED &&
	       is_abroad(q, q->rsp.resource[0].srqn);
}

/* --- time, and the other process's end ------------------------------------------------
 */

/* The process of slot has ended, or cannot be reached. */
static void lose(struct ib_qp *q, uint16_t slot, uint64_t now)
{
	struct relay *r = relay_of(q);
	const enum question asked = r->asked;

	qp_is_held(q->qp);
	r->met[slot / 64] &= ~(1ull << slot % 64);
	if (asked == NOTHING || r->slot != slot)
		return;
	r->asked = NOTHING;
	if (asked == CARRY)
		give_up(q, REFUSED_SRQ, now);
	else
		fetch_failed(q, REFUSED_SRQ);
	go_on(q, now);
}

uint64_t relay_run(struct ib_qp *q, uint64_t now)
{
	struct relay *r = relay_of(q);

	qp_is_held(q->qp);
	if (!r)
		return NEVER;
	if (r->asked && now >= r->repeat_at && !put_question(q, now))
		lose(q, r->slot, now);
	if (now >= r->again_at)
		r->again_at = 0;
	go_on(q, now); /* a question may have been dropped, or a receive posted */
	if (r->asked)
		return r->repeat_at;
	return r->again_at ? r->again_at : NEVER;
}

/* --- the end of a life ----------------------------------------------------------------
 */

static bool is_any(const uint64_t slots[static SLOT_WORDS])
{
	uint64_t any = 0;

	for (unsigned i = 0; i < SLOT_WORDS; i++)
		any |= slots[i];
	return any != 0;
}

/* Tells that the lives before this one have ended.  A connection that is full is told
 * later, and is added to `full`, which is not tried. */
static void say_ends(struct ib *ib, struct ends *e, uint64_t full[static SLOT_WORDS])
{
	struct xrc_head m = { .what = XRC_END, .qpn = e->qpn, .life = e->life - 1 };
	const struct iovec part = { &m, sizeof(m) };

	for (unsigned i = 0; i < SLOT_WORDS; i++)
		for (uint64_t left = e->unsaid[i] & ~full[i]; left; left &= left - 1) {
			const unsigned bit = (unsigned)__builtin_ctzll(left);

			if (xrc_pass(ib, (uint16_t)(64 * i + bit), &part, 1) == -EAGAIN)
				full[i] |= 1ull << bit;
			else
				e->unsaid[i] &= ~(1ull << bit);
		}
	if (is_any(e->unsaid) && xrc_of(ib)->again_at == NEVER)
		xrc_of(ib)->again_at = 0;
}

static void free_ends(struct ends *e)
{
	list_del(&e->node);
	turn_free(e);
}

static void free_if_said(struct ends *e)
{
	if (!e->q && !is_any(e->unsaid))
		free_ends(e);
}

void relays_end(struct ib *ib)
{
	uint64_t full[SLOT_WORDS] = { 0 };

	list_for_safe(n, &xrc_of(ib)->ends)
	{
		struct ends *e = container_of(n, struct ends, node);

		say_ends(ib, e, full);
		free_if_said(e);
	}
}

void relay_stop(struct ib_qp *q)
{
	uint64_t full[SLOT_WORDS] = { 0 };
	struct relay *r = relay_of(q);

	if (!r)
		return;
	drop_all(r);
	if (!q->rsp.nak_due) /* otherwise the answers before the NAK go out too */
		forget_part(q);
	if (!is_any(r->met))
		return;
	for (unsigned i = 0; i < SLOT_WORDS; i++)
		r->ends->unsaid[i] |= r->met[i];
	memset(r->met, 0, sizeof(r->met));
	r->ends->life = ++xrc_of(q->ib)->lives;
	say_ends(q->ib, r->ends, full);
}

/* An earlier QP of the number has left some, too: the later lives' ends are theirs.  So
 * there are at most as many as QP numbers. */
static void join_earlier(struct ib *ib, struct ends *e)
{
	list_for(n, &xrc_of(ib)->ends)
	{
		struct ends *to = container_of(n, struct ends, node);

		if (to == e || to->q || to->qpn != e->qpn)
			continue;
		for (unsigned i = 0; i < SLOT_WORDS; i++)
			to->unsaid[i] |= e->unsaid[i];
		to->life = e->life;
		free_ends(e);
		return;
	}
}

void relay_free(struct ib_qp *q)
{
	struct relay *r = relay_of(q);
	struct ends *e;

	relay_stop(q);
	if (!r)
		return;
	e = r->ends;
	turn_free(r);
	q->own = NULL;
	e->q = NULL;
	if (is_any(e->unsaid))
		join_earlier(q->ib, e);
	else
		free_ends(e);
}

void relay_gone(struct ib *ib, uint16_t slot, uint64_t now)
{
	list_for_safe(n, &xrc_of(ib)->ends)
	{
		struct ends *e = container_of(n, struct ends, node);
		struct qp *qp = e->q ? e->q->qp : NULL;

		e->unsaid[slot / 64] &= ~(1ull << slot % 64);
		if (qp) {
			lock_take(&qp->lock);
			lose(e->q, slot, now);
			ib_settle(e->q);
			lock_give(&qp->lock);
		}
		free_if_said(e);
	}
}

void relays_close(struct ib *ib)
{
	list_for_safe(n, &xrc_of(ib)->ends) free(container_of(n, struct ends, node));
}
