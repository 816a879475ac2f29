/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP peers that say anything, in any cut, while an iWARP connection is set up:
 * to a listener of ours, whose program does anything at any time; or as who
 * answers a request of ours.  A loop stands in for the sockets.
 *
 * The input: a byte (enum mode, or-ed), then a list of steps: a byte that says
 * what (enum step, modulo), and what that takes (below).  Bytes that are missing
 * are 0.
 *
 * Beside crashes it looks for: a hello that is whole and not taken, or taken
 * before it is; programs told of a connection out of order; requests beyond the
 * backlog; what is left when all is over. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm/iw_int.h"
#include "input.h"
#include "iwarp/sim.h"
#include "must.h"
#include "net/dgram.h"
#include "sys/log.h"

enum mode {
	ASK = 1, /* the first peer answers a request; the others ask */
	CUT = 2,
	FALLBACK = 4, /* ... the request is of revision 1 */
};

enum step {
	COME,  /* which (1): it connects */
	BYTES, /* which (1), length (1), bytes: as they are */
	HELLO, /* which (1), flags (1), revision (1), RTRs and whether it
		* is a reply (1), IRD (1), ORD (1), length of private
		* data in pairs (1) */
	FIN,
	BREAK, /* which (1) */
	RUN,   /* bits 0-4: 2^n microseconds */
	OWN,
	ACCEPT,
	REJECT,
	ESTABLISHED,
	DISCONNECT,
	CLOSE, /* which (1) */
	STEPS
};

enum { ENDS = 3, EVENTS = 4, BACKLOG = 2, SPACE = 0x0106 };

struct prog {
	struct cm_owner owner; /* must be first */
	struct cm_conn *conn;
	bool asks, attached, parted;
	unsigned n;
	enum cm_event_type told[EVENTS];
};

struct peer {
	/* Raw: the peer's end; ours: cm's end; NULL: the peer has not connected. */
	struct stream *raw, *ours;
	bool ended;
	size_t n;		     /* number of bytes that the peer has sent */
	uint8_t said[MPA_HELLO_MAX]; /* the first of these bytes */
};

struct world {
	struct sim *s;
	struct sim_pair p[ENDS];
	struct cm *cm;
	struct cm_listener *l;
	struct cm_owner listener;
	unsigned mode, asked_n;
	struct cm_conn *asked[BACKLOG]; /* requests that no program owns yet */
	struct prog prog[ENDS];
	struct peer peer[ENDS];
};

static struct world w;

/* --- programs ------------------------------------------------------------ */

static bool on_request(struct cm_owner *owner, const struct cm_event *ev)
{
	(void)owner;
	MUST(ev->type == CM_EV_REQUEST && w.asked_n < BACKLOG);
	MUST(ev->peer->private_len <= MPA_PRIVATE_MAX);
	MUST(ev->peer->resources <= IW_DEPTH_MAX && ev->peer->depth <= IW_DEPTH_MAX);
	w.asked[w.asked_n++] = ev->conn;
	return true;
}

/* Expects one answer and, for a connection, its end. */
static bool on_event(struct cm_owner *owner, const struct cm_event *ev)
{
	struct prog *p = (struct prog *)owner;

	MUST(p->n < EVENTS);
	p->told[p->n++] = ev->type;
	switch (ev->type) {
	case CM_EV_RESPONSE:
	case CM_EV_REJECTED:
		MUST(p->n == 1 && p->asks);
		break;
	case CM_EV_ESTABLISHED:
		MUST(p->n == 1 && !p->asks && p->attached);
		break;
	case CM_EV_DISCONNECTED:
		/* The connection may also end before the RTR frame has come. */
		MUST(p->attached && (p->n == 2 || (p->parted && !p->asks)));
		break;
	case CM_EV_UNREACHABLE:
	case CM_EV_FAILED:
		MUST(p->n == 1);
		break;
	case CM_EV_REQUEST:
	case CM_EV_PATH:
	case CM_EV_GROUP:
	case CM_EV_TIMEWAIT_EXIT:
		MUST(false);
		break;
	}
	return true;
}

static struct cm_param self_of(unsigned i)
{
	return (struct cm_param){ .qpn = w.p[i].qp[1]->qpn,
				  .resources = 4,
				  .depth = 4,
				  .private = "data",
				  .private_len = 4 };
}

static void accept_it(unsigned i)
{
	struct prog *p = &w.prog[i];
	struct cm_param self = self_of(i);
	const bool was = p->attached;

	/* The program may be told at once. */
	p->attached = true;
	if (p->asks ? cm_iw_proto.attach(p->conn, w.s->now)
		    : cm_accept(p->conn, &self, &p->owner, w.s->now))
		p->attached = was;
}

static void own(unsigned i)
{
	struct prog *p = &w.prog[i];

	if (p->conn || p->n || !w.asked_n)
		return;
	p->conn = w.asked[0];
	w.asked[0] = w.asked[--w.asked_n];
	cm_taken(w.cm, p->conn);
}

static void act(enum step what, unsigned i)
{
	struct prog *p = &w.prog[i];

	if (what == OWN)
		own(i);
	if (!p->conn)
		return;
	if (what == ACCEPT) {
		accept_it(i);
	} else if (what == REJECT) {
		(void)cm_iw_proto.reject(p->conn, 0, "no", 2, w.s->now);
	} else if (what == ESTABLISHED) {
		(void)cm_iw_proto.established(p->conn, w.s->now);
	} else if (what == DISCONNECT) {
		p->parted = true;
		(void)cm_iw_proto.disconnect(p->conn, w.s->now);
	} else if (what == CLOSE) {
		cm_iw_proto.close(p->conn, w.s->now);
		p->conn = NULL;
	}
}

/* --- peers --------------------------------------------------------------- */

static void join(struct peer *p, unsigned i)
{
	struct stream_loop_conf conf = { .seed = w.mode & CUT ? i + 1 : 0 };

	MUST(stream_loop_pair(&p->raw, &p->ours, &conf) == 0);
}

static void come(unsigned i)
{
	struct cm_target from = { .src_port = 7471, .dst_port = 1, .iwarp = true };
	struct peer *p = &w.peer[i];

	if (p->raw)
		return;
	join(p, i);
	MUST(iwc_come(w.l, p->ours, &from, w.s->now));
}

static void ask(void)
{
	struct iwc *c = iwc_new(w.cm);

	MUST(c);
	join(&w.peer[0], 0);
	c->base.owner = &w.prog[0].owner;
	c->fallback = w.mode & FALLBACK;
	c->qpn = w.p[0].qp[1]->qpn;
	c->ird = c->ord = 4;
	w.prog[0].conn = &c->base;
	w.prog[0].asks = true;
	iwc_ask(c, w.peer[0].ours, w.s->now);
}

static void say(struct peer *p, const uint8_t *at, size_t n)
{
	while (p->raw && !p->ended && n > 0) {
		struct iovec v = { (void *)(uintptr_t)at, n };
		ssize_t took = p->raw->ops->send(p->raw, &v, 1, w.s->now);

		if (took <= 0)
			return;
		for (ssize_t i = 0; i < took; i++, p->n++)
			if (p->n < sizeof(p->said))
				p->said[p->n] = at[i];
		at += took;
		n -= (size_t)took;
	}
}

static void bytes(struct peer *p, struct input *in)
{
	uint8_t at[256];
	size_t n = take_byte(in);

	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)take_byte(in);
	say(p, at, n);
}

static void hello(struct peer *p, struct input *in)
{
	static const uint8_t data[MPA_PRIVATE_MAX];
	struct mpa_hello h = { .flags = (uint8_t)take_byte(in),
			       .revision = (uint8_t)take_byte(in),
			       .data = data };
	unsigned more = take_byte(in);
	uint8_t at[MPA_HELLO_MAX];

	h.reply = more & 1;
	h.peer_to_peer = more & 2;
	h.rtr = more >> 2 & 7;
	h.ird = (uint16_t)take_byte(in);
	h.ord = (uint16_t)take_byte(in);
	h.data_len = (uint16_t)(take_byte(in) % 255 * 2);
	say(p, at, mpa_hello_build(at, &h));
}

static void end(struct peer *p, bool in_order)
{
	if (!p->raw || p->ended)
		return;
	p->ended = true;
	if (in_order)
		p->raw->ops->fin(p->raw);
	else
		stream_loop_break(p->raw, 104); /* ECONNRESET */
}

/* --- time ---------------------------------------------------------------- */

static const struct peer *peer_of(const struct iwc *c)
{
	for (int i = 0; i < ENDS; i++)
		if (c->stream && c->stream == w.peer[i].ours)
			return &w.peer[i];
	return NULL;
}

/* Does what epoll would report. */
static void progress(void)
{
	list_for_safe(n, &w.cm->iw->all)
	{
		struct iwc *c = container_of(n, struct iwc, node);
		const struct peer *p = peer_of(c);

		if ((c->state != IWC_ASKED && c->state != IWC_PARKED) || (p && p->ended))
			iwc_progress(c, w.s->now);
	}
}

/* Checks that all bytes sent by the peers were received. */
static void check(void)
{
	unsigned half = 0;

	list_for(n, &w.cm->iw->all)
	{
		struct iwc *c = container_of(n, struct iwc, node);
		const struct peer *p = peer_of(c);
		size_t most = p && p->n < MPA_HELLO_MAX ? p->n : MPA_HELLO_MAX;

		half += c->state == IWC_AWAITING || c->state == IWC_PARKED;
		MUST(c->state != IWC_PARKED || w.asked_n == BACKLOG);
		MUST(c->held || c->state == IWC_AWAITING || c->qp);
		if (!p)
			continue;
		if (c->state == IWC_AWAITING || c->state == IWC_ASKING)
			MUST(!p->ended && mpa_hello_need(p->said, most) > most);
		if (c->state == IWC_ASKED || c->state == IWC_ANSWERED)
			MUST(mpa_hello_need(p->said, most) == c->setup.in_len);
	}
	MUST(w.cm->iw->half_n == half && (!w.l || w.l->asked == w.asked_n));
}

static void run(uint64_t ns)
{
	w.s->now += ns;
	progress();
	cm_run(w.cm, w.s->now);
	sim_run(w.s, 1);
	cm_run(w.cm, w.s->now);
	check();
}

/* --- */

static void one_step(struct input *in)
{
	enum step what = (enum step)(take_byte(in) % STEPS);
	unsigned arg = take_byte(in), i = arg % ENDS;

	switch (what) {
	case COME:
		come(i);
		break;
	case BYTES:
		bytes(&w.peer[i], in);
		break;
	case HELLO:
		hello(&w.peer[i], in);
		break;
	case FIN:
	case BREAK:
		end(&w.peer[i], what == FIN);
		break;
	case RUN:
		run(1000ull << arg % 28);
		break;
	case OWN:
	case ACCEPT:
	case REJECT:
	case ESTABLISHED:
	case DISCONNECT:
	case CLOSE:
		act(what, i);
		break;
	case STEPS:
		break;
	}
}

static void start(unsigned mode)
{
	struct cm_service service = { .space = SPACE, .port = 7471, .any = true };

	memset(&w, 0, sizeof(w));
	w.mode = mode;
	w.s = sim_open();
	MUST(cm_open(&w.cm, &w.s->node[1].core, NULL, NULL, 1) == 0);
	w.listener.event = on_request;
	MUST(cm_bind(w.cm, &service, &w.l) == 0);
	MUST(cm_listen(w.cm, w.l, BACKLOG, false, &w.listener) == 0);
	for (int i = 0; i < ENDS; i++) {
		w.p[i] = sim_pair(w.s, NULL);
		w.prog[i].owner.event = on_event;
	}
	if (mode & ASK)
		ask();
}

static void finish(void)
{
	cm_unbind(w.cm, w.l);
	w.l = NULL;
	for (unsigned i = 0; i < ENDS; i++)
		act(CLOSE, i);
	while (w.asked_n)
		cm_iw_proto.close(w.asked[--w.asked_n], w.s->now);
	run(SEC);
	sim_run(w.s, 20 * SEC);
	for (int i = 0; i < ENDS; i++)
		sim_unpair(&w.p[i]);
	iw_run(w.cm, w.s->now);
	MUST(w.cm->iw->n == 0 && w.cm->iw->half_n == 0);
	MUST(cm_deadline(w.cm) == NEVER);
	for (int i = 0; i < ENDS; i++)
		if (w.peer[i].raw)
			w.peer[i].raw->ops->close(w.peer[i].raw);
	cm_close(w.cm);
	sim_close(w.s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };

	log_set_level("error");
	start(take_byte(&in));
	for (int i = 0; i < 100 && in.at < in.end; i++)
		one_step(&in);
	finish();
	return 0;
}
