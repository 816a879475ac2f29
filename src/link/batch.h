/* SPDX-License-Identifier: BSD-2-Clause */
/* batch.h - datagrams going out together. */
#ifndef LINK_BATCH_H
#define LINK_BATCH_H

#include "link/dgram.h"

/* Datagrams going out, with the room for all that they point to.  Valid for
 * one turn: payload stands in registered memory. */
enum {
	BATCH_MAX = 128,	  /* datagrams */
	BATCH_IOV = 512,	  /* a datagram of n SGEs takes n + 2 */
	BATCH_HDR = 96,		  /* headers, pad and ICRC of one datagram */
	BATCH_BOUNCE = 256 << 10, /* copies: payload that must not change */
};

struct batch {
	unsigned n, iov_used;
	size_t bounce_used;
	uint32_t run_bytes; /* so far in the run of v[n - 1] */
	struct dgram v[BATCH_MAX];
	struct iovec iov[BATCH_IOV];
	uint8_t hdr[BATCH_MAX][BATCH_HDR];
	uint8_t bounce[BATCH_BOUNCE];
};

static inline void batch_reset(struct batch *b)
{
	b->n = b->iov_used = 0;
	b->bounce_used = 0;
	b->run_bytes = 0;
}

/* Room for one more datagram of at most iovs pieces and bytes of bounce? */
bool batch_has_room(const struct batch *b, unsigned iovs, size_t bounce);

/* The next datagram's slot, cleared, with d->iov set to free pieces. */
struct dgram *batch_next(struct batch *b);

/* v[n], whose link, address, to_slot, len and iovcnt are final, joins the run of
 * v[n - 1] if the kernel can cut both from one buffer (same link and address; no
 * longer than the run's first, nothing after a shorter one): sets seg.  Then n grows by
 * one. What the pieces point to may still be written until the datagram is sealed, and
 * the trailer is not before then.  bounce_used is the caller's to advance, before or
 * after. */
void batch_commit(struct batch *b, struct dgram *d);

/* The link writes the trailer of the last one.  0; -EFAULT: a piece of it is not
 * mapped, and it is out of the batch again. */
int batch_seal(struct batch *b);

#endif
