/* SPDX-License-Identifier: BSD-2-Clause */
/* emit.c - builds one datagram in the batch from field values and payload.
 *
 * A large payload that is sent for the first time is sent from where it lies.  A small
 * payload, or one that is sent again, is copied first: so memory that changes between the
 * link's ICRC and the kernel's copy can spoil a packet once, but not each time it is
 * sent. */
#include <errno.h>
#include <string.h>

#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "ib/on_lane.h"
#include "net/batch.h"

enum {
	COPY_MAX = 256,		   /* up to this size a copy is cheaper than an iovec */
	TRAILER = 3 + TRAILER_LEN, /* the pad, and the link's trailer */
	ALIGN = 15,
};

static void address(struct dgram *d, const struct path *path, uint32_t dest_qp)
{
	d->link = path->link;
	d->addr = path->addr;
	d->to_slot = qpn_slot(dest_qp);
	d->same_host = path->same_host;
}

/* Puts d together: the header of n bytes at hdr, the payload where it lies, and pad and
 * trailer behind the header. */
static void lay_out(struct dgram *d, const struct emit *e, uint8_t *hdr, size_t n)
{
	unsigned pieces = span_iov(e->span, e->off, e->len, d->iov + 1);

	d->iov[0] = (struct iovec){ hdr, n };
	d->iov[pieces + 1] = (struct iovec){ hdr + n, e->f.pad + TRAILER_LEN };
	d->iovcnt = pieces + 2;
	memset(hdr + n, 0, e->f.pad);
}

static int seal(struct ib_qp *q, struct batch *b)
{
	if (batch_seal(b) != 0)
		return -EFAULT;
	emitted(q, b)->len = b->v[b->n - 1].len - TRAILER_LEN;
	return 0;
}

/* Headers, payload, pad and trailer in one buffer. */
static int emit_copied(struct ib_qp *q, struct batch *b, struct emit *e)
{
	uint8_t *at = b->bounce + b->bounce_used;
	size_t room = IB_HDR_MAX + e->len + TRAILER, n;
	struct dgram *d;

	if (!batch_has_room(b, 1, room + ALIGN))
		return -ENOBUFS;
	n = ib_build(at, &e->f);
	if (e->len > 0 && span_copy(at + n, e->span, e->off, e->len) != 0)
		return -EFAULT;
	n += e->len;
	memset(at + n, 0, e->f.pad);
	n += e->f.pad;

	d = batch_next(b);
	address(d, e->path, e->f.dest_qp);
	d->len = (uint32_t)(n + TRAILER_LEN);
	d->iov[0] = (struct iovec){ at, d->len };
	d->iovcnt = 1;
	batch_commit(b, d);
	b->bounce_used += (d->len + ALIGN) & ~(size_t)ALIGN;
	return seal(q, b);
}

static int emit_in_place(struct ib_qp *q, struct batch *b, struct emit *e)
{
	uint8_t *hdr = b->hdr[b->n];
	struct dgram *d;
	size_t n;

	if (!batch_has_room(b, e->span->n + 2, 0))
		return -ENOBUFS;
	n = ib_build(hdr, &e->f);
	d = batch_next(b);
	address(d, e->path, e->f.dest_qp);
	d->len = (uint32_t)n + e->len + e->f.pad + TRAILER_LEN;
	lay_out(d, e, hdr, n);
	batch_commit(b, d);
	return seal(q, b);
}

bool emit_has_next(const struct emit *e)
{
	return !e->copy && e->len > COPY_MAX;
}

int emit_next(struct ib_qp *q, struct batch *b, const struct emit *e)
{
	uint8_t *hdr = b->hdr[b->n];
	struct dgram *d;
	size_t n;
	int rc;

	if (!batch_has_room(b, e->span->n + 2, 0))
		return -ENOBUFS;
	d = batch_again(b);
	n = d[-1].iov[0].iov_len;
	memcpy(hdr, d[-1].iov[0].iov_base, n);
	ib_set_psn(hdr, &e->f);
	lay_out(d, e, hdr, n);
	batch_commit_again(b, d);
	rc = seal(q, b);
	if (!rc)
		emitted(q, b)->rate = e->path->rate;
	return rc;
}

int emit(struct ib_qp *q, struct batch *b, struct emit *e)
{
	int rc;

	e->f.pad = (uint8_t)(-e->len & 3);
	e->f.migreq = ib_op(e->f.opcode)->kind != IB_CONGESTION; /* A17.9.3 */
	e->f.pkey = qp_pkey(q->qp);
	if (b->n == BATCH_MAX)
		return -ENOBUFS;
	rc = e->copy || e->len <= COPY_MAX ? emit_copied(q, b, e)
					   : emit_in_place(q, b, e);
	if (!rc)
		emitted(q, b)->rate = e->path->rate;
	return rc;
}

int emit_planned(struct ib_qp *q, struct batch *b, struct emit *e,
		 const struct plan *plan)
{
	int rc = q->qp->lane.via ? lane_emit(q, e) : emit(q, b, e);
	uint32_t len;

	if (rc)
		return rc;
	if (q->qp->lane.via) {
		plan_sent(q, plan, q->ib->now);
		return 0;
	}
	len = emitted(q, b)->len;
	*emitted(q, b) = *plan;
	emitted(q, b)->len = len;
	emitted(q, b)->rate = e->path->rate;
	return 0;
}
