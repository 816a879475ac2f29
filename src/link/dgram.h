/* SPDX-License-Identifier: BSD-2-Clause */
/* dgram.h - datagrams on their way between a transport and a link. */
#ifndef LINK_DGRAM_H
#define LINK_DGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "sys/addr.h"

struct net_addr {
	uint8_t ip[16], mac[6];
	uint16_t port;
}; /* IPv4: mapped */

struct dgram {
	struct net_addr from, to;
	uint32_t ifindex;    /* came in by / has to leave by; 0: any */
	uint8_t tclass, ttl; /* ECN is in tclass */
	int32_t ip_id;	     /* IPv4 identification.  Out: what the link will
			      * put.  In: the best guess; -1: none */
	bool ip_id_exact;    /* in: ip_id was read from the packet */
	bool handed;	     /* in: by way of another process of the host */
	bool damaged;	     /* in: its ICRC is wrong */
	uint16_t seg;	     /* place in its run of equal-sized ones */
	uint16_t to_slot;    /* out: slot of the destination QPN, not mixed in
			      * a run: GRO would show only the first's */
	bool here;	     /* out: to an address of this host, and its slot
			      * may take it by a pipe */
	uint32_t len;	     /* bytes in iov.  Out: BTH to the link's trailer, which
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

struct link;

struct batch {
	struct link *link; /* it goes by this one */
	unsigned n, iov_used;
	size_t bounce_used;
	unsigned run_max;   /* datagrams in a run; 1: link has no GSO */
	uint32_t run_bytes; /* so far in the run of v[n - 1] */
	struct dgram v[BATCH_MAX];
	struct iovec iov[BATCH_IOV];
	uint8_t hdr[BATCH_MAX][BATCH_HDR];
	uint8_t bounce[BATCH_BOUNCE];
};

static inline bool addr_same_ip(const struct net_addr *a, const struct net_addr *b)
{
	return memcmp(a->ip, b->ip, sizeof(a->ip)) == 0;
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

/* v[n], whose addresses, tclass, ttl, to_slot, len and iovcnt are final, joins
 * the run of v[n - 1] if the kernel can cut both from one buffer (same
 * addresses and class; no longer than the run's first, nothing after a shorter
 * one): sets seg, and ip_id to what the link will put.  Then n grows by one.
 * What the pieces point to may still be written until the datagram is sealed, and
 * the trailer is not before then.  bounce_used is the caller's to advance, before or
 * after. */
void batch_commit(struct batch *b, struct dgram *d);

/* The link writes the trailer of the last one.  0; -EFAULT: a piece of it is not
 * mapped, and it is out of the batch again. */
int batch_seal(struct batch *b);

#endif
