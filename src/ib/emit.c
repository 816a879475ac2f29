/* SPDX-License-Identifier: BSD-2-Clause */
/* emit.c - one datagram, from field values to the batch.
 *
 * What is sent for the first time is sent from where it lies.  Small payload,
 * and what is sent again, is copied first: then memory that changes between
 * the ICRC and the kernel's copy can spoil a packet once, but not for ever.
 */
#include <errno.h>
#include <string.h>

#include "ib/ib_qp.h"
#include "sys/guard.h"
#include "wire/icrc.h"

enum {
	COPY_MAX = 256,			/* cheaper copied than pointed to */
	TRAILER = 3 + ICRC_LEN,		/* pad and ICRC */
	ALIGN = 15,
};

static void address(struct dgram *d, const struct core *core, const struct av *av,
		    uint32_t dest_qp)
{
	memcpy(d->from.ip, av->sgid, sizeof(d->from.ip));
	memcpy(d->to.ip, av->dgid, sizeof(d->to.ip));
	d->from.port = core->udp_sport;
	d->to.port = core->udp_port;
	d->ifindex = av->ifindex;
	d->tclass = av->tclass;
	d->ttl = av->hop_limit;
	d->to_slot = (uint16_t)(dest_qp >> QPN_INDEX_BITS);
	d->here = av->here;
}

static void path_of(const struct dgram *d, struct icrc_path *p)
{
	memcpy(p->src, d->from.ip, sizeof(p->src));
	memcpy(p->dst, d->to.ip, sizeof(p->dst));
	p->sport = d->from.port;
	p->dport = d->to.port;
}

static void record(struct ib_qp *q, const struct batch *b, const struct dgram *d,
		   const struct emit *e)
{
	struct plan *p = &q->ib->plan[b->n - 1];

	*p = e->plan;
	p->len = d->len;
}

/* Headers, payload, pad and ICRC in one piece. */
static int emit_copied(struct ib_qp *q, struct batch *b, struct emit *e)
{
	uint8_t *at = b->bounce + b->bounce_used;
	size_t room = IB_HDR_MAX + e->len + TRAILER, n;
	struct icrc_path path;
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
	address(d, q->ib->core, e->av, e->f.dest_qp);
	d->len = (uint32_t)(n + ICRC_LEN);
	d->iov[0] = (struct iovec){ at, d->len };
	d->iovcnt = 1;
	batch_commit(b, d);
	b->bounce_used += (d->len + ALIGN) & ~(size_t)ALIGN;

	path_of(d, &path);
	icrc_end(icrc_start(&path, (uint16_t)d->ip_id, d->len, at, n), at + n);
	record(q, b, d, e);
	return 0;
}

struct crc { uint32_t crc; const struct iovec *iov; unsigned n; };

static void do_crc(void *arg)
{
	struct crc *c = arg;
	uint32_t crc = c->crc;

	for (unsigned i = 0; i < c->n; i++)
		crc = icrc_add(crc, c->iov[i].iov_base, c->iov[i].iov_len);
	c->crc = crc;
}

static int emit_in_place(struct ib_qp *q, struct batch *b, struct emit *e)
{
	uint32_t run_bytes = b->run_bytes;
	uint8_t *hdr = b->hdr[b->n], *trailer;
	struct icrc_path path;
	struct dgram *d;
	struct crc c;
	size_t n;

	if (!batch_has_room(b, e->span->n + 2, 0))
		return -ENOBUFS;
	n = ib_build(hdr, &e->f);
	trailer = hdr + n;
	memset(trailer, 0, e->f.pad);

	d = batch_next(b);
	address(d, q->ib->core, e->av, e->f.dest_qp);
	d->len = (uint32_t)n + e->len + e->f.pad + ICRC_LEN;
	d->iov[0] = (struct iovec){ hdr, n };
	c.n = span_iov(e->span, e->off, e->len, d->iov + 1);
	d->iov[c.n + 1] = (struct iovec){ trailer, e->f.pad + ICRC_LEN };
	d->iovcnt = c.n + 2;
	batch_commit(b, d);

	path_of(d, &path);
	c.crc = icrc_start(&path, (uint16_t)d->ip_id, d->len, hdr, n);
	c.iov = d->iov + 1;
	if (guard_call(do_crc, &c) != 0) {
		b->n--;
		b->iov_used -= d->iovcnt;
		b->run_bytes = run_bytes;
		return -EFAULT;
	}
	icrc_end(e->f.pad ? icrc_add(c.crc, trailer, e->f.pad) : c.crc,
		 trailer + e->f.pad);
	record(q, b, d, e);
	return 0;
}

int emit(struct ib_qp *q, struct batch *b, struct emit *e)
{
	e->f.pad = (uint8_t)(-e->len & 3);
	e->f.migreq = e->plan.kind != PLAN_CNP;	/* A17.9.3 */
	e->f.pkey = 0xffff;
	if (b->n == BATCH_MAX)
		return -ENOBUFS;
	return e->copy || e->len <= COPY_MAX ? emit_copied(q, b, e) :
					       emit_in_place(q, b, e);
}
