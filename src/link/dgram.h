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
	bool damaged;	       /* in, and of a fault out: its ICRC is wrong */
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

enum {
	DGRAM_IOV_MAX = 34, /* headers, 32 SGEs, trailer */
	TRAILER_LEN = 4,    /* RoCE v2: the ICRC */
};

static inline bool addr_same(const struct link_addr *a, const struct link_addr *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

#endif
