/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection management: any MADs, among those of a peer that means it, at any
 * time, to programs that do anything.
 *
 * The input is a list of steps: a byte that says what (enum step, modulo), and
 * what that takes (below).  Bytes that are missing are 0.
 *
 * Beside crashes it looks for: messages that do not survive being built and taken
 * apart, connections without an owner or a timer that should have one, and
 * connections that are left when all is over. */
#include <stdio.h>

#include "cm/fix.h"
#include "input.h"
#include "must.h"

enum step {
	RAW,	 /* to (1), then a MAD's 256 bytes as they are */
	MESSAGE, /* to (1), type (1), connection (1), which IDs are right (1),
		  * QPN right (1), then up to 64 bytes of the body */
	RUN,	 /* 2^n ns */
	CONNECT, /* which (1) */
	OWN,
	ACCEPT,
	REJECT,
	ESTABLISHED,
	DISCONNECT,
	CLOSE, /* which (1) */
	CUT,   /* the network, or heal it */
	DEAD,  /* all processes of a host (1), or not */
	QUOTE, /* whose refusal (1), of what was sent last (1), or else 308 bytes */
	STEPS
};

enum { PROGS = 4 };

struct world {
	struct fix *f;
	struct prog *l, *a[PROGS], *b[PROGS];
	struct cm_listener *listener;
	unsigned owned;
};

static void land(struct world *w, int to, const uint8_t *mad)
{
	struct cm_msg m, again;
	uint8_t built[MAD_LEN], src[16], dst[16];

	if (cm_mad_parse(&m, mad, MAD_LEN) == 0) {
		cm_mad_build(built, &m);
		MUST(cm_mad_parse(&again, built, MAD_LEN) == 0);
		MUST(memcmp(&m, &again, sizeof(m)) == 0);
	}
	fix_ip(!to, src);
	fix_ip(to, dst);
	fix_raw_mad(&w->f->core[to], src, dst, mad, w->f->now);
}

static void raw(struct world *w, struct input *in)
{
	uint8_t mad[MAD_LEN];
	int to = take_byte(in) & 1;

	for (int i = 0; i < MAD_LEN; i++)
		mad[i] = take_byte(in);
	land(w, to, mad);
}

static void message(struct world *w, struct input *in)
{
	int to = take_byte(in) & 1;
	struct cm_msg m = { .type = (enum cm_type)(take_byte(in) % CM_TYPES) };
	struct prog *p = (to ? w->b : w->a)[take_byte(in) % PROGS];
	uint8_t right = take_byte(in), qpn = take_byte(in), mad[MAD_LEN];

	cm_mad_build(mad, &m);
	for (int i = 8; i < 72; i++)
		mad[MAD_HDR + i] = take_byte(in);
	MUST(cm_mad_parse(&m, mad, MAD_LEN) == 0);
	if (p->conn && right & 1)
		m.local_id = conn_of(p->conn)->remote_id;
	if (p->conn && right & 2)
		m.remote_id = conn_of(p->conn)->local_id;
	if (p->conn && right & 4)
		m.tid = conn_of(p->conn)->tid;
	if (p->conn && qpn & 1)
		m.qpn = conn_of(p->conn)->local_qpn;
	cm_mad_build(mad, &m);
	land(w, to, mad);
}

/* A refusal (ICMP) that quotes the message that was sent last, or anything else. */
static void quote(struct world *w, struct input *in)
{
	int side = take_byte(in) & 1;
	struct refusal *r = &w->f->refusal[side][0];
	bool last = take_byte(in) & 1;

	fix_ip(!side, r->ip);
	for (unsigned i = 0; i < GSI_PACKET; i++)
		r->quote[i] = last ? w->f->last[side][i] : take_byte(in);
	w->f->refusals[side] = 1;
}

/* A program may use its handle of a connection until it closes the connection. */
static void act(struct world *w, enum step what, unsigned i)
{
	struct prog *p = i & 1 ? w->a[i / 2 % PROGS] : w->b[i / 2 % PROGS];
	struct cm_param self = { .qpn = i + 1, .private = "x", .private_len = 1 };
	uint64_t now = w->f->now;

	p->n = p->n > FIX_EVENTS / 2 ? 0 : p->n;
	if (what == CONNECT && i & 1 && !p->conn)
		fix_connect(p, i & 16 ? FIX_UDP : FIX_SPACE, i, "y");
	if (!p->conn)
		return;
	if (what == ACCEPT)
		(void)p->conn->proto->accept(p->conn, &self, now);
	else if (what == REJECT)
		(void)p->conn->proto->reject(p->conn, (uint16_t)i, "no", 2, now);
	else if (what == ESTABLISHED)
		(void)p->conn->proto->established(p->conn, now);
	else if (what == DISCONNECT)
		(void)p->conn->proto->disconnect(p->conn, now);
	else if (what == CLOSE) {
		p->conn->proto->close(p->conn, now);
		p->conn = NULL;
	}
}

/* Gives the oldest request without an owner to program i. */
static void own(struct world *w, unsigned i)
{
	struct prog *b = w->b[i % PROGS];

	if (w->owned == w->l->n || b->conn)
		return;
	fix_take(b, w->l, w->owned++);
	memmove(w->l->note, w->l->note + w->owned,
		(w->l->n - w->owned) * sizeof(struct note));
	w->l->n -= w->owned;
	w->owned = 0;
}

static void check(struct world *w)
{
	for (int side = 0; side < 2; side++) {
		struct cm *cm = fix_cm(w->f, side);

		for (unsigned i = 0; i < cm->used; i++) {
			struct conn *c = conn_at(cm, i);
			bool timed = c->state == ST_REQ_SENT || c->state == ST_REP_SENT ||
				     c->state == ST_DREQ_SENT ||
				     c->state == ST_SIDR_SENT ||
				     c->state == ST_TIMEWAIT || c->state == ST_ANSWERED;

			/* An established connection is probed, so it has a timer. */
			MUST(heap_has(&c->timer) ==
			     (timed || c->state == ST_ESTABLISHED));
			MUST(c->held || timed || c->state == ST_FREE);
		}
	}
}

static void one(struct world *w, struct input *in)
{
	enum step what = (enum step)(take_byte(in) % STEPS);
	int i;

	switch (what) {
	case RAW:
		raw(w, in);
		break;
	case MESSAGE:
		message(w, in);
		break;
	case RUN:
		fix_run(w->f, UINT64_C(1) << take_byte(in) % 38);
		break;
	case OWN:
		own(w, take_byte(in));
		break;
	case CUT:
		w->f->cut = !w->f->cut;
		break;
	case DEAD:
		i = take_byte(in) & 1;
		w->f->dead[i] = !w->f->dead[i];
		break;
	case QUOTE:
		quote(w, in);
		break;
	case CONNECT:
	case ACCEPT:
	case REJECT:
	case ESTABLISHED:
	case DISCONNECT:
	case CLOSE:
		act(w, what, take_byte(in));
		break;
	case STEPS:
		break;
	}
}

static void finish(struct world *w)
{
	w->f->cut = w->f->dead[0] = w->f->dead[1] = false;
	for (unsigned i = 0; i < PROGS; i++) {
		prog_free(w->a[i]);
		prog_free(w->b[i]);
	}
	for (unsigned i = w->owned; i < w->l->n; i++)
		cm_ib_proto.close(w->l->note[i].conn, w->f->now);
	cm_unbind(fix_cm(w->f, 1), w->listener);
	prog_free(w->l);
	fix_close(w->f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct world w = { .f = fix_open(1) };

	w.l = prog_new(w.f, 1);
	w.listener = fix_listen(w.l, FIX_SPACE, PROGS);
	for (unsigned i = 0; i < PROGS; i++) {
		w.a[i] = prog_new(w.f, 0);
		w.b[i] = prog_new(w.f, 1);
	}
	for (unsigned i = 0; i < 200 && in.at < in.end; i++) {
		one(&w, &in);
		check(&w);
	}
	finish(&w);
	return 0;
}
