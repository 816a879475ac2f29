/* SPDX-License-Identifier: BSD-2-Clause */
/* lane.c - makes a pair of rings the lane of connected QPs (net/lane.h). */
#include <assert.h>
#include <errno.h>

#include "local/peer.h"
#include "net/ip_addr.h"
#include "verbs/core.h"
#include "verbs/sgl.h"

static struct peer *peer_of(struct lane *l)
{
	return container_of(l, struct peer, lane);
}

/* --- headers ------------------------------------------------------------- */

static_assert(IB_EXTS == 10, "a header that is not in WIDE, pack_wide(), data_of() and "
			     "unpack() is lost between two processes of a host");
enum { WIDE = 1 << IB_RETH | 1 << IB_ATOMICETH | 1 << IB_ATOMICACKETH };

static bool is_wide(const struct ib_fields *f, uint16_t exts)
{
	return exts & WIDE || f->by_ref;
}

static void pack_wide(const struct ib_fields *f, uint16_t exts, struct rec *r)
{
	r->va = exts & 1 << IB_ATOMICACKETH ? f->orig : f->va;
	r->rkey = f->rkey;
	r->len = f->dma_len;
	r->compare = f->compare;
	r->swap_add = f->swap_add;
}

static uint32_t data_of(const struct ib_fields *f, uint16_t exts)
{
	return exts & 1 << IB_IMMDT  ? f->imm
	       : exts & 1 << IB_IETH ? f->inv_rkey
	       : exts & 1 << IB_FETH ? f->flush
				     : f->msn;
}

/* Fills all of r but stamp and bytes. */
static void pack(const struct ib_fields *f, uint16_t exts, struct rec *r)
{
	r->kind = REC_PACKET;
	r->flags =
		(uint8_t)((is_wide(f, exts) ? REC_WIDE : 0) | (f->se ? REC_SE : 0) |
			  (f->ackreq ? REC_ACKREQ : 0) | (f->written ? REC_WRITTEN : 0) |
			  (f->by_ref ? REC_BY_REF : 0) |
			  (f->by_value ? REC_BY_VALUE : 0) | (f->again ? REC_AGAIN : 0));
	r->opcode = f->opcode;
	r->syndrome = f->syndrome;
	r->dst = f->dest_qp;
	r->psn = f->psn;
	r->data = data_of(f, exts);
	if (is_wide(f, exts))
		pack_wide(f, exts, r);
}

/* Does a SEND by reference name at most one packet's payload, and bring none itself?  A
 * UC message is complete for its sender once it is sent, so UC's are not by reference. */
static bool is_sound_ref(const struct rec *r, const struct ib_op *op, uint32_t len)
{
	return op->kind == IB_SEND && ib_service(r->opcode) == IB_RC &&
	       r->flags & REC_WIDE && len == 0 && r->len > 0 && r->len <= LANE_PAYLOAD;
}

/* len: the bytes behind the headers.  Returns false if the record is not valid. */
static bool unpack(const struct rec *r, uint32_t len, struct ib_pkt *pkt)
{
	struct ib_fields *f = &pkt->f;
	const struct ib_op *op = ib_op(r->opcode);

	if (!op || ib_service(r->opcode) > IB_UC ||
	    (op->ext & WIDE && !(r->flags & REC_WIDE)) ||
	    (r->flags & REC_BY_REF && !is_sound_ref(r, op, len)))
		return false;
	pkt->op = op;
	pkt->exts = op->ext;
	f->opcode = r->opcode;
	f->se = r->flags & REC_SE;
	f->ackreq = r->flags & REC_ACKREQ;
	f->written = r->flags & REC_WRITTEN;
	f->by_ref = r->flags & REC_BY_REF;
	f->by_value = r->flags & REC_BY_VALUE;
	f->again = r->flags & REC_AGAIN;
	f->dest_qp = r->dst;
	f->psn = r->psn & 0xffffff;
	f->syndrome = r->syndrome;
	f->imm = f->inv_rkey = f->flush = f->msn = r->data;
	if (is_wide(f, op->ext)) {
		f->va = f->orig = r->va;
		f->rkey = r->rkey;
		f->dma_len = r->len;
		f->compare = r->compare;
		f->swap_add = r->swap_add;
	}
	pkt->payload_len = f->by_ref ? r->len : len;
	return true;
}

/* --- out ----------------------------------------------------------------- */

static int send_fields(struct lane *l, const struct lane_from *from,
		       const struct ib_fields *f, const struct span *span, uint32_t off,
		       uint32_t len)
{
	const struct ib_op *op = ib_op(f->opcode);
	uint32_t head = is_wide(f, op->ext) ? REC_HEAD_WIDE : REC_HEAD;
	uint32_t carried = f->by_ref ? 0 : len;
	struct peer *p = peer_of(l);
	struct rec *r;
	int rc = 0;

	/* Even without room: a peer that sleeps over a full ring must be woken */
	peer_wrote(p);
	peer_lock(p);
	r = op->kind == IB_ACK ? ring_reserve_answer(&p->out)
			       : ring_reserve(&p->out, head + carried);
	if (!r) {
		rc = -ENOBUFS;
	} else if (carried && span_copy((uint8_t *)r + head, span, off, carried)) {
		rc = -EFAULT;
	} else {
		pack(f, op->ext, r);
		r->src = from->qpn;
		r->route = from->out;
		ring_publish(&p->out, r, head + carried);
		p->l->count.out++;
		p->l->count.out_bytes += len;
	}
	peer_unlock(p);
	return rc;
}

static int send_short(struct lane *l, const struct lane_from *from,
		      const struct lane_short *s, const struct span *span, uint32_t len)
{
	struct peer *p = peer_of(l);
	struct rec *r = ring_reserve(&p->out, REC_HEAD + len);

	peer_wrote(p);
	if (!r)
		return -ENOBUFS;
	if (len && span_copy_first((uint8_t *)r + REC_HEAD, span, len))
		return -EFAULT;
	r->kind = REC_PACKET;
	r->flags = (uint8_t)((s->se ? REC_SE : 0) | (s->ackreq ? REC_ACKREQ : 0));
	r->opcode = s->opcode;
	r->syndrome = 0;
	r->dst = s->dst;
	r->src = from->qpn;
	r->psn = s->psn;
	r->data = 0;
	r->route = from->out;
	ring_publish(&p->out, r, REC_HEAD + len);
	p->l->count.out++;
	p->l->count.out_bytes += len;
	return 0;
}

/* --- routes and flow ------------------------------------------------------- */

static uint32_t hash(const uint8_t *from, const uint8_t *to)
{
	uint32_t h = 2166136261u;

	for (int i = 0; i < 16; i++)
		h = (h ^ from[i]) * 16777619u;
	for (int i = 0; i < 16; i++)
		h = (h ^ to[i]) * 16777619u;
	return h;
}

/* A lane refuses packets of other addresses than its QP's, as a wire does: so a route is
 * a hash of both addresses. */
static struct lane_route route(const struct link_addr *addr)
{
	const struct ip_addr *a = ip_addr(addr);

	return (struct lane_route){ .out = hash(a->from.ip, a->to.ip),
				    .in = hash(a->to.ip, a->from.ip) };
}

static bool look(struct lane *l)
{
	struct peer *p = peer_of(l);
	bool sound;

	peer_lock(p);
	sound = ring_look(&p->out);
	peer_unlock(p);
	if (sound)
		return true;
	peer_broken(p, "it has read further than was written");
	return false;
}

static bool moves(struct lane *l, uint64_t now)
{
	return peer_reads(peer_of(l), now);
}

static void left(struct lane *l)
{
	struct local *local = peer_of(l)->l;

	peer_release(peer_of(l));
	if (!list_empty(&local->dead) && local->ops->sooner)
		local->ops->sooner(local->arg);
}

static void borrow(struct lane *l, uint32_t key)
{
	peer_ask_map(peer_of(l), key);
}

static void unlock(struct lane *l, uint64_t now)
{
	peer_ask_gate(peer_of(l), now);
}

static void nudge(struct lane *l, uint64_t word)
{
	peer_nudge(peer_of(l), word);
}

static const struct lane_ops lane_ops = {
	send_fields, send_short, route, look, moves, left, borrow, unlock, nudge,
};

void peer_make_lane(struct peer *p)
{
	p->lane.ops = &lane_ops;
	p->lane.state = LANE_PENDING;
	p->lane.written = &p->out.head;
	p->lane.read = &p->out.tail;
	p->lane.got = &p->in.tail;
	p->lane.reach = &p->reach;
	list_init(&p->lane.qps);
	p->lane.share = RING_SHARE;
	list_init(&p->lane.line);
	list_init(&p->lane.unanswered);
	list_init(&p->starved);
}

void peer_forget_pipe(struct peer *p)
{
	p->pipe = NULL;
	p->lane.executed = NULL;
	p->lane.theirs = NULL;
	p->replies.s = p->replied = NULL;
}

/* --- in ------------------------------------------------------------------ */

/* Is it the common case: an RC SEND in one packet without immediate data? */
static bool is_short(const struct rec *r)
{
	return r->opcode == ib_opcode(IB_RC, IB_SEND, IB_ONLY, IB_NONE) && !r->syndrome &&
	       !(r->flags & (REC_WIDE | REC_WRITTEN | REC_BY_REF));
}

bool lane_input_short(struct peer *p, const struct rec *r, const uint8_t *payload,
		      uint32_t len, uint64_t now)
{
	const struct lane_from from = { r->src, r->route };
	const struct lane_short s = {
		.opcode = r->opcode,
		.se = r->flags & REC_SE,
		.ackreq = r->flags & REC_ACKREQ,
		.dst = r->dst,
		.psn = r->psn & 0xffffff,
	};

	return is_short(r) &&
	       p->l->ops->message(p->l->core, &p->lane, &from, &s, payload, len, now);
}

bool lane_input(struct peer *p, const struct rec *r, const uint8_t *payload, uint32_t len,
		uint64_t now)
{
	struct local *l = p->l;
	struct ib_pkt pkt;

	if (!unpack(r, len, &pkt))
		return false;
	pkt.payload = pkt.f.by_ref ? NULL : payload;
	l->one_sided |= ib_is_request(pkt.op) && pkt.op->kind != IB_SEND;
	l->ops->packet(l->core, &p->lane, &pkt, r->src, r->route, now);
	return true;
}
