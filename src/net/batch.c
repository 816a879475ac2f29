/* SPDX-License-Identifier: BSD-2-Clause */
/* batch.c - see batch.h. */
#include "net/batch.h"

#include <assert.h>

#include "net/link.h"

/* UDP_SEGMENT cuts a buffer of at most 64 KiB less the headers; longer ones
 * are refused with EMSGSIZE. */
enum { RUN_BYTES_MAX = 65000 };

bool batch_has_room(const struct batch *b, unsigned iovs, size_t bounce)
{
	return b->n < BATCH_MAX && iovs <= BATCH_IOV - b->iov_used &&
	       bounce <= BATCH_BOUNCE - b->bounce_used;
}

struct dgram *batch_next(struct batch *b)
{
	struct dgram *d = &b->v[b->n];

	assert(b->n < BATCH_MAX);
	memset(d, 0, sizeof(*d));
	d->iov = &b->iov[b->iov_used];
	return d;
}

struct dgram *batch_again(struct batch *b)
{
	struct dgram *d = &b->v[b->n];

	assert(b->n > 0 && b->n < BATCH_MAX);
	*d = d[-1];
	d->iov = &b->iov[b->iov_used];
	return d;
}

/* Is there room for d in the buffer whose last datagram is prev, if it goes to the same
 * place? */
static bool fits_run(const struct batch *b, const struct dgram *prev,
		     const struct dgram *d)
{
	const struct dgram *first = prev - prev->seg;

	return prev->seg + 1u < d->link->run_max &&
	       b->run_bytes + d->len <= RUN_BYTES_MAX && prev->len == first->len &&
	       d->len <= first->len;
}

/* Can the kernel cut d from the buffer whose last datagram is prev? */
static bool joins(const struct batch *b, const struct dgram *prev, const struct dgram *d)
{
	return d->link == prev->link && fits_run(b, prev, d) &&
	       addr_same(&prev->addr, &d->addr) && prev->to_slot == d->to_slot &&
	       prev->same_host == d->same_host;
}

bool batch_run_is_full(const struct batch *b)
{
	const struct dgram *last = &b->v[b->n - 1];

	return last->seg && !fits_run(b, last, last);
}

static void append_dgram(struct batch *b, struct dgram *d, bool joined)
{
	assert(d == &b->v[b->n] && b->n < BATCH_MAX && d->len > 0);
	assert(d->iovcnt <= BATCH_IOV - b->iov_used);
	if (joined) {
		d->seg = (uint16_t)(d[-1].seg + 1);
		b->run_bytes += d->len;
	} else {
		d->seg = 0;
		b->run_bytes = d->len;
	}
	b->iov_used += d->iovcnt;
	b->n++;
}

void batch_commit(struct batch *b, struct dgram *d)
{
	append_dgram(b, d, b->n > 0 && joins(b, d - 1, d));
}

void batch_commit_again(struct batch *b, struct dgram *d)
{
	append_dgram(b, d, fits_run(b, d - 1, d));
}

static void take_out_last(struct batch *b)
{
	const struct dgram *d = &b->v[--b->n];

	b->iov_used -= d->iovcnt;
	b->run_bytes -= d->len;
	/* d had ended the run before it; that run may not grow again. */
	if (d->seg == 0)
		b->run_bytes = RUN_BYTES_MAX;
}

int batch_seal(struct batch *b)
{
	struct dgram *d = &b->v[b->n - 1];
	int rc = d->link->ops->seal ? d->link->ops->seal(d->link, d) : 0;

	if (rc)
		take_out_last(b);
	return rc;
}
