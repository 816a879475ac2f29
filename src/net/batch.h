/* SPDX-License-Identifier: BSD-2-Clause */
/* batch.h - collects the datagrams that one turn sends, so that they leave together. */
#ifndef NET_BATCH_H
#define NET_BATCH_H

#include "net/dgram.h"

/* A batch holds the datagrams with room for their headers and pieces. It is valid for
 * one turn only, because payload pieces point into registered memory. */
enum {
	BATCH_MAX = 128,	  /* datagrams */
	BATCH_IOV = 512,	  /* a datagram of n SGEs takes n + 2 */
	BATCH_BOUNCE = 256 << 10, /* bytes for copies of payload that must not change */
};

struct batch {
	unsigned n, iov_used;
	size_t bounce_used;
	uint32_t run_bytes; /* bytes so far in the run that v[n - 1] belongs to */
	struct dgram v[BATCH_MAX];
	struct iovec iov[BATCH_IOV];
	uint8_t bounce[BATCH_BOUNCE];
};

static inline void batch_reset(struct batch *b)
{
	b->n = b->iov_used = 0;
	b->bounce_used = 0;
	b->run_bytes = 0;
}

/* Is there room for one more datagram of at most `iovs` pieces and `bounce` bytes of
 * copies? */
bool batch_has_room(const struct batch *b, unsigned iovs, size_t bounce);

/* Returns the next datagram's slot, cleared, with d->iov pointing at free pieces. */
struct dgram *batch_next(struct batch *b);

/* Adds v[n], whose link, address, to_slot, len and iovcnt must be final. It joins the
 * run of v[n - 1] if the kernel can cut both from one buffer (same link and address, no
 * longer than the run's first datagram, no shorter one before it); sets seg accordingly.
 *
 * The bytes of the pieces may be written until batch_seal(); the trailer is written
 * there. The caller advances bounce_used itself, before or after.
 */
void batch_commit(struct batch *b, struct dgram *d);

/* As batch_next() and batch_commit(), for a datagram like the last one in the batch:
 * link, address, to_slot and len are the same, and stay so. */
struct dgram *batch_again(struct batch *b);
void batch_commit_again(struct batch *b, struct dgram *d);

/* Does the last datagram end a run that has no room for another one like it? */
bool batch_run_is_full(const struct batch *b);

/* Has the link write the trailer of the last datagram. Returns 0, or -EFAULT if a piece
 * is not mapped; the datagram is then taken out of the batch. */
int batch_seal(struct batch *b);

#endif
