/* SPDX-License-Identifier: BSD-2-Clause */
/* emit.c - builds one datagram in the batch from field values and payload.
 *
 * The payload is copied behind its header, and the link computes the ICRC while the copy
 * is in the cache: so the datagrams of a run are one piece of memory for the kernel, and
 * memory that the program changes meanwhile spoils no packet. */
#include <errno.h>
#include <string.h>

#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "net/batch.h"
#include "wire/ib_hdr.h"

enum {
	TRAILER = 3 + TRAILER_LEN, /* the pad, and the link's trailer */
};

static void address(struct dgram *d, const struct path *path, uint32_t dest_qp)
{
	d->link = path->link;
	d->addr = path->addr;
	d->to_slot = qpn_slot(dest_qp);
	d->same_host = path->same_host;
}

static uint8_t *place(struct batch *b)
{
	return b->bounce + b->bounce_used;
}

/* Puts payload and pad behind the header of n bytes.  Returns the datagram's length, or
 * -EFAULT. */
static int fill(struct batch *b, size_t n, const struct emit *e)
{
	uint8_t *at = place(b) + n;

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
	memcpy(place(b), last->iov[0].iov_base, n);
	ib_set_psn(place(b), &e->f);
	len = fill(b, n, e);
	if (len < 0)
		return len;
	d = batch_again(b);
	d->iov[0] = (struct iovec){ place(b), (size_t)len };
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
	len = fill(b, ib_build(place(b), &e->f), e);
	if (len < 0)
		return len;
	d = batch_next(b);
	address(d, e->path, e->f.dest_qp);
	d->len = (uint32_t)len;
	d->iov[0] = (struct iovec){ place(b), d->len };
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
