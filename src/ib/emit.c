/* SPDX-License-Identifier: BSD-2-Clause */
/* emit.c - puts datagrams into the batch, each built from field values and payload, and
 * turns what output() has planned into what was sent, as far as the link has taken the
 * batch.
 *
 * The payload is copied behind its header, and the link computes the ICRC while the copy
 * is in the cache: so the datagrams of a run are one piece of memory for the kernel, and
 * memory that the program changes meanwhile spoils no packet. */
#include <errno.h>
#include <string.h>

#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "net/batch.h"
#include "verbs/due.h"
#include "verbs/rate.h"
#include "wire/ib_hdr.h"

enum {
	TRAILER = 3 + TRAILER_LEN, /* the pad, and the link's trailer */
	LRH_BYTES = 8,
};

/* --- one datagram -------------------------------------------------------------- */

static void address(struct dgram *d, const struct path *path, uint32_t dest_qp)
{
	d->link = path->link;
	d->addr = path->addr;
	d->to_slot = qpn_slot(dest_qp);
	d->same_host = path->same_host;
}

static uint8_t *next_place(struct batch *b)
{
	return b->bounce + b->bounce_used;
}

/* Puts payload and pad behind the header of n bytes.  Returns the datagram's length, or
 * -EFAULT. */
static int fill_payload(struct batch *b, size_t n, const struct emit *e)
{
	uint8_t *at = next_place(b) + n;

	if (e->len > 0 && span_copy(at, e->span, e->off, e->len) != 0)
		return -EFAULT;
	memset(at + e->len, 0, e->f.pad);
	return (int)n + (int)e->len + e->f.pad + TRAILER_LEN;
}

static int seal(struct ib_qp *q, struct batch *b, const struct emit *e)
{
	struct plan *plan = emitted(q, b);

	b->bounce_used += b->v[b->n - 1].len;
	if (batch_seal(b) != 0)
		return -EFAULT;
	plan->len = b->v[b->n - 1].len - TRAILER_LEN;
	plan->rate = e->path->rate;
	return 0;
}

int emit_next(struct ib_qp *q, struct batch *b, const struct emit *e)
{
	const struct dgram *last = &b->v[b->n - 1];
	size_t n = last->len - TRAILER_LEN - e->f.pad - e->len;
	struct dgram *d;
	int len;

	if (!batch_has_room(b, 1, last->len))
		return -ENOBUFS;
	memcpy(next_place(b), last->iov[0].iov_base, n);
	ib_set_psn(next_place(b), &e->f);
	len = fill_payload(b, n, e);
	if (len < 0)
		return len;
	d = batch_again(b);
	d->iov[0] = (struct iovec){ next_place(b), (size_t)len };
	batch_commit_again(b, d);
	return seal(q, b, e);
}

int emit(struct ib_qp *q, struct batch *b, struct emit *e)
{
	struct dgram *d;
	int len;

	e->f.pad = (uint8_t)(-e->len & 3);
	e->f.migreq = ib_op(e->f.opcode)->kind != IB_CONGESTION; /* A17.9.3 */
	e->f.pkey = qp_pkey(q->qp);
	if (!batch_has_room(b, 1, IB_HDR_MAX + e->len + TRAILER))
		return -ENOBUFS;
	len = fill_payload(b, ib_build(next_place(b), &e->f), e);
	if (len < 0)
		return len;
	d = batch_next(b);
	address(d, e->path, e->f.dest_qp);
	d->len = (uint32_t)len;
	d->iov[0] = (struct iovec){ next_place(b), d->len };
	d->iovcnt = 1;
	batch_commit(b, d);
	return seal(q, b, e);
}

void emit_ask(struct ib_qp *q, struct batch *b)
{
	struct bth *bth = b->v[b->n - 1].iov[0].iov_base;
	struct plan *plan = emitted(q, b);

	bth->ackreq |= BTH_A;
	plan->timed = plan->fresh;
	plan->at.unasked = 0;
	(void)batch_seal(b); /* all is in the batch's own memory */
}

int emit_planned(struct ib_qp *q, struct batch *b, struct emit *e,
		 const struct plan *plan)
{
	int rc = emit(q, b, e);
	uint32_t len;

	if (rc)
		return rc;
	len = emitted(q, b)->len;
	*emitted(q, b) = *plan;
	emitted(q, b)->len = len;
	emitted(q, b)->rate = e->path->rate;
	return 0;
}

/* --- what was sent -------------------------------------------------------------- */

static void request_sent(struct ib_qp *q, const struct plan *p, uint64_t now)
{
	struct ib_req *r = &q->req;

	/* The QP may have failed since the packet was planned. */
	if (q->qp->state != IBV_QPS_RTS && q->qp->state != IBV_QPS_SQD)
		return;
	r->at = p->at;
	if (!q->qp->reliable)
		return;
	if (q->host)
		cc_sent(q, p->cost);
	req_arm(q, now);
	if (!p->fresh) {
		count(q, IB_TX_RETRANSMIT);
		return;
	}
	ack_answered(q, now);
	if (p->timed && r->rtt_at == 0) {
		r->rtt_psn = p->psn;
		r->rtt_at = now;
	}
}

void plan_sent(struct ib_qp *q, const struct plan *p, uint64_t now)
{
	switch (p->kind) {
	case PLAN_REQUEST:
		request_sent(q, p, now);
		return;
	case PLAN_RESPONSE:
		rsp_sent(q, p->psn, p->sent);
		return;
	case PLAN_ACK:
	case PLAN_NAK:
		ack_sent(q, p);
		return;
	case PLAN_CNP:
		q->rsp.cnp_due = false;
		return;
	}
}

/* 9.11: the next packet waits for as long as this one takes at the static rate of its
 * path. */
static void pace(struct ib_qp *q, const struct plan *p, uint64_t now)
{
	const uint64_t kbps = (uint64_t)p->rate * 1000;

	if (p->rate)
		q->next_at = pace_from(q->next_at, now) +
			     pace_ns(p->len + LRH_BYTES + TRAILER_LEN, kbps);
}

/* The link took nothing, not even p.  What goes to a link that takes nothing for ever is
 * lost, as on a wire. */
static void link_refused(struct ib_qp *q, const struct plan *p, uint64_t now)
	REQUIRES(q->qp->lock)
{
	if (!req_is_stuck(q, now))
		return;
	if (q->qp->reliable)
		req_fail(q, IBV_WC_RETRY_EXC_ERR, VERR_LINK, now);
	else
		plan_sent(q, p, now);
}

uint64_t ib_commit(struct qp *qp, unsigned first, unsigned n, uint64_t now)
{
	struct ib_qp *q = ib_qp(qp);
	uint64_t bytes = 0;

	qp_is_held(q->qp);
	if (n)
		q->req.refused_at = q->req.stuck = 0;
	else
		link_refused(q, &q->ib->plan[first], now);
	for (unsigned i = first; i < first + n; i++) {
		bytes += q->ib->plan[i].len;
		pace(q, &q->ib->plan[i], now);
		plan_sent(q, &q->ib->plan[i], now);
	}
	q->counter[IB_TX] += n;
	q->counter[IB_TX_BYTES] += bytes;
	qp->tp.traffic.sent += n;
	qp->tp.traffic.sent_bytes += bytes;
	if (q->host)
		cc_unplan(q);
	/* The program ends: nobody wants completions, and locks may stay taken. */
	return qp->core->leaving ? NEVER : ib_run(qp, now);
}
