/* SPDX-License-Identifier: BSD-2-Clause */
/* dgram.h - datagrams on their way between a transport and a link. */
#ifndef NET_DGRAM_H
#define NET_DGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

struct link;

/* Source and destination of a datagram, in the form of its link (net/ip_addr.h,
 * net/lid_addr.h). Other code only copies and compares the bytes: equal addresses are
 * equal bytes. */
enum { LINK_ADDR_LEN = 44 };
struct link_addr {
	_Alignas(4) uint8_t bytes[LINK_ADDR_LEN];
};

struct dgram {
	/* sent: the link it leaves by; received: the link it came by */
	struct link *link;
	struct link_addr addr; /* from its sender to its receiver */
	/* IPv4 identification. Sent: what the link will write. Received: the best guess,
	 * -1 if none */
	int32_t ip_id;
	bool ip_id_exact;  /* in: ip_id was read from the packet */
	bool may_fragment; /* received: IPv4 with DF clear */
	bool mad;	   /* a MAD that another process forwarded, not a packet */
	bool damaged;	   /* received, or sent after a fault: the ICRC is wrong */
	bool marked;	   /* received: a router marked congestion (ECN) */
	uint16_t seg;	   /* index in its run of equal-sized datagrams */
	/* received: number of datagrams lost before it because the socket was full; a
	 * run counts as one */
	uint32_t lost;
	/* sent: slot of the destination QPN. A run has one slot, because GRO shows only
	 * the first header */
	uint16_t to_slot;
	/* sent: the destination is on this host, and its process may take the datagram
	 * by a pipe */
	bool same_host;
	/* bytes in iov. Sent: BTH through the link's trailer of TRAILER_LEN bytes.
	 * Received: BTH through pad */
	uint32_t len;
	unsigned iovcnt;
	struct iovec *iov; /* the payload is not copied */
	struct iovec one;  /* received: what iov points to */
};

enum {
	DGRAM_IOV_MAX = 34, /* headers, 32 SGEs, trailer */
	TRAILER_LEN = 4,    /* RoCE v2: the ICRC */
};

static inline bool addr_same(const struct link_addr *a, const struct link_addr *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

#endif
