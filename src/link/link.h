/* SPDX-License-Identifier: BSD-2-Clause */
/* link.h - carries datagrams; knows nothing of what is in them.
 *
 * udp.c and loop.c reach another host or process.  fault.c and pcap.c wrap
 * another link and so can be put around any of them; the outermost, roce.c or
 * lid.c, makes packets of the datagrams and knows what addresses mean
 * (docs/paths.md).  All calls but resolve() are made by the holder of the
 * engine's turn; none blocks.
 */
#ifndef LINK_LINK_H
#define LINK_LINK_H

#include <stddef.h>
#include <stdint.h>

#include "link/dgram.h"

/* Where a path is to lead, in the terms of verbs (ibv_ah_attr). */
struct link_to {
	bool grh; /* and so the GIDs, which are 16 bytes each */
	const uint8_t *sgid, *dgid;
	uint16_t slid, dlid;
	uint8_t sl, tclass, hop_limit;
	uint32_t flow_label;
	uint32_t port; /* the port's number: for what has a meaning there alone */
	bool v1;       /* by RoCE v1, as the type of the source GID says */
	bool told;     /* the sender is to be told if nobody is there, if it can be */
};

/* The end that an address leads to.  Equal ones share a congestion window. */
struct link_dest {
	uint8_t gid[16]; /* zeroes where there is no GRH */
	uint16_t lid;	 /* of InfiniBand */
	uint32_t port;	 /* that it came in by; 0: not known */
	bool group;	 /* it is a multicast group */
};

/* How a datagram came, for the completion and the buffer of its receiver. */
enum { LINK_HEAD_LEN = 40 };
struct link_head {
	uint8_t bytes[LINK_HEAD_LEN]; /* the GRH, or what stands for it */
	bool grh;
	uint8_t sl, dlid_path_bits;
	uint16_t slid;
};

struct link {
	const struct link_ops {
		/* Hand over n datagrams.  Returns how many were taken; fewer
		 * when the link is full (a run is taken whole or not at all),
		 * or -errno when it is broken.  What an address leaves to the
		 * link is filled in. */
		int (*send)(struct link *link, struct dgram *v, unsigned n, uint64_t now);
		/* Fill up to n datagrams, valid until the next recv.  Returns
		 * how many; 0 when none waits; -errno when it is broken. */
		int (*recv)(struct link *link, struct dgram *v, unsigned n, uint64_t now);
		/* d, which is built but for its trailer, gets that: before send,
		 * and when its place in a run is final.  -EFAULT: a piece is not
		 * mapped.  NULL: there is nothing to write. */
		int (*seal)(struct link *link, struct dgram *d);
		/* When recv or send has something due although no descriptor
		 * says so (a delayed datagram); UINT64_MAX: never. */
		uint64_t (*deadline)(struct link *link);
		void (*close)(struct link *link);

		/* Of the outermost link alone: */
		/* The address that leads there; any thread.  NULL, or why there
		 * is none. */
		const char *(*resolve)(const struct link_to *to, struct link_addr *out);
		/* Did d come from where path leads, to where it begins? */
		bool (*is_from)(const struct link_addr *path, const struct dgram *d);
		void (*dest)(const struct link_addr *addr, struct link_dest *out);
		void (*head)(const struct dgram *d, struct link_head *out);
	} * ops;
	unsigned run_max;    /* datagrams in one run, as of GSO; 1: none */
	size_t mtu;	     /* longest datagram, BTH to ICRC */
	uint64_t full_until; /* the engine's: it was full, and is not asked before */
};

#endif
