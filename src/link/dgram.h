/* SPDX-License-Identifier: BSD-2-Clause */
/* dgram.h - datagrams on their way between a transport and a link. */
#ifndef LINK_DGRAM_H
#define LINK_DGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

struct link;

/* The two ends of a datagram's way, as its link writes and reads them (link/ip_addr.h,
 * link/lid_addr.h).  Others copy it whole, and compare it: equal ways are equal bytes. */
enum { LINK_ADDR_LEN = 44 };
struct link_addr {
	_Alignas(4) uint8_t bytes[LINK_ADDR_LEN];
};

struct dgram {
	struct link *link;     /* that it leaves by; that it came by */
	struct link_addr addr; /* from its sender to its receiver */
	int32_t ip_id;	       /* IPv4 identification.  Out: what the link will
				* put.  In: the best guess; -1: none */
	bool ip_id_exact;      /* in: ip_id was read from the packet */
	bool may_fragment;     /* in: it is IPv4's, and DF is not set */
	bool mad;	       /* a MAD that another process has forwarded, and
				* no packet */
	bool damaged;	       /* in: its ICRC is wrong */
	bool marked;	       /* in: a router has seen congestion (ECN) */
	uint16_t seg;	       /* place in its run of equal-sized ones */
	uint32_t lost;	       /* in: so many came before it and found the socket
				* full; a run counts as one */
	uint16_t to_slot;      /* out: slot of the destination QPN, not mixed in
				* a run: GRO would show only the first's */
	bool same_host;	       /* out: to an address of this host, and its slot
				* may take it by a pipe */
	uint32_t len;	       /* bytes in iov.  Out: BTH to the link's trailer, which
				* is TRAILER_LEN bytes.  In: BTH to pad */
	unsigned iovcnt;
	struct iovec *iov; /* payload in place */
	struct iovec one;  /* in: what iov points to */
};

/* Datagrams going out, with the room for all that they point to.  Valid for
 * one turn: payload stands in registered memory. */
enum {
	BATCH_MAX = 128,	  /* datagrams */
	BATCH_IOV = 512,	  /* a datagram of n SGEs takes n + 2 */
	BATCH_HDR = 96,		  /* headers, pad and ICRC of one datagram */
	BATCH_BOUNCE = 256 << 10, /* copies: payload that must not change */
	DGRAM_IOV_MAX = 34,	  /* headers, 32 SGEs, trailer */
	TRAILER_LEN = 4,	  /* RoCE v2: the ICRC */
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

static inline bool addr_same(const struct link_addr *a, const struct link_addr *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

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
