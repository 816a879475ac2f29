/* SPDX-License-Identifier: BSD-2-Clause */
/* fetch.c - fetches payload of a READ response from another process.  Only the next part
 * of the oldest READ is fetched, when it is to go out; see relay.h and docs/dev/xrc.md.
 */
#include <string.h>

#include "core/due.h"
#include "core/xrc.h"
#include "ib/ib_qp.h"
#include "ib/relay.h"
#include "ib/xrc_msg.h"

static void ask(struct ib_qp *q)
{
	struct relay *r = q->relay;
	int rc =
		xrc_pass(q->ib, r->part.slot, &r->part.msg, sizeof(r->part.msg), NULL, 0);

	r->part.state = rc == 0 ? ASKED : rc == -EAGAIN ? WANTED : REFUSED;
	r->part.why = REFUSED_SRQ;
	if (rc == -EAGAIN)
		xrc_again(q->ib);
}

/* The length in bytes of the part that begins at packet `from` of t. */
static uint32_t part_len(const struct ib_qp *q, const struct resource *t, uint32_t from)
{
	const uint32_t most = XRC_FETCH_MAX / q->mtu * q->mtu;
	const uint32_t left = t->len - from * q->mtu;

	return left < most ? left : most;
}

/* Is the part that t needs next the one that is here or on its way?  *skip: packets of
 * that part which come before it. */
static bool is_part(const struct ib_qp *q, const struct resource *t, uint32_t *skip)
{
	const struct relay *r = q->relay;
	const struct xrc_fetch *m = &r->part.msg;

	*skip = psn_off(psn_add(t->psn, t->sent), r->part.psn);
	return r->part.state != NOTHING && *skip < (m->len - 1) / q->mtu + 1 &&
	       *skip <= t->sent && m->va == t->va + (t->sent - *skip) * q->mtu &&
	       m->len == part_len(q, t, t->sent - *skip) && m->rkey == t->rkey &&
	       m->srqn == t->srqn;
}

static void want(struct ib_qp *q, const struct resource *t)
{
	struct relay *r = q->relay;

	r->part.msg = (struct xrc_fetch){
		.head = { .what = XRC_FETCH, .qpn = q->qp->qpn },
		.id = r->part.msg.id + 1,
		.srqn = t->srqn,
		.va = t->va + t->sent * q->mtu,
		.rkey = t->rkey,
		.len = part_len(q, t, t->sent),
	};
	(void)xrcd_name(q->qp->xrcd, &r->part.msg.name);
	r->part.slot = qpn_slot(t->srqn);
	r->part.psn = psn_add(t->psn, t->sent);
	relay_meet(r, r->part.slot);
	ask(q);
}

int relay_bytes(struct ib_qp *q, const struct resource *t, struct relay_bytes *out,
		enum refusal *why)
{
	struct relay *r = q->relay ? q->relay : relay_make(q);
	uint32_t skip = 0;

	*why = REFUSED_SRQ;
	if (!r)
		return -EACCES;
	if (t->len == 0) { /* a READ of 0 bytes, or an atomic write: nothing to fetch */
		*out = (struct relay_bytes){ r->part.bytes, 0, 1 };
		return 0;
	}
	if (!is_part(q, t, &skip)) {
		want(q, t);
		skip = 0;
	}
	switch (r->part.state) {
	case NOTHING:
	case WANTED:
	case ASKED:
		return -EAGAIN;
	case REFUSED:
		r->part.state = NOTHING;
		*why = r->part.why;
		return -EACCES;
	case HERE:
		break;
	}
	*out = (struct relay_bytes){
		.at = r->part.bytes + (size_t)skip * q->mtu,
		.first = t->sent,
		.n = (r->part.msg.len - 1) / q->mtu + 1 - skip,
	};
	return 0;
}

void relay_read_done(struct ib_qp *q)
{
	if (q->relay)
		q->relay->part.state = NOTHING;
}

bool relay_waits(const struct ib_qp *q)
{
	const struct relay *r = q->relay;

	return r && q->rsp.resources &&
	       (r->part.state == ASKED || r->part.state == WANTED) &&
	       rsp_is_abroad(q, q->rsp.resource[0].srqn);
}

void fetch_came(struct ib_qp *q, uint16_t slot, const struct xrc_data *m,
		const uint8_t *bytes, size_t len)
{
	struct relay *r = q->relay;

	if (r->part.state != ASKED || m->id != r->part.msg.id || slot != r->part.slot ||
	    m->refused >= REFUSALS || len != (m->refused ? 0 : r->part.msg.len))
		return;
	r->part.state = m->refused ? REFUSED : HERE;
	r->part.why = (enum refusal)m->refused;
	memcpy(r->part.bytes, bytes, len);
	due_add(q->qp->core, q->qp);
}

void fetch_gone(struct ib_qp *q, uint16_t slot)
{
	struct relay *r = q->relay;

	if (r->part.slot != slot || (r->part.state != ASKED && r->part.state != WANTED))
		return;
	r->part.state = REFUSED;
	r->part.why = REFUSED_SRQ;
	due_add(q->qp->core, q->qp);
}

void fetch_again(struct ib_qp *q)
{
	if (q->relay->part.state != WANTED)
		return;
	ask(q);
	due_add(q->qp->core, q->qp);
}
