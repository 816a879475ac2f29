/* SPDX-License-Identifier: BSD-2-Clause */
/* link.h - an interface that carries datagrams and knows nothing of their contents.
 *
 * udp.c, raw.c (packet sockets, around udp.c), adapter.c (a fabric) and loop.c (tests)
 * reach another host or process. fault.c and pcap.c wrap any other link. The outermost,
 * roce.c or lid.c, makes packets of the datagrams and knows what addresses mean
 * (docs/dev/paths.md). The holder of the engine's turn makes all calls but resolve(),
 * which any thread may make; none blocks.
 */
#ifndef NET_LINK_H
#define NET_LINK_H

#include <stddef.h>
#include <stdint.h>

#include "net/dgram.h"
#include "sys/source.h"

/* Destination of a path, in the terms of verbs (ibv_ah_attr). */
struct link_to {
	bool grh; /* the GIDs below are valid; 16 bytes each */
	const uint8_t *sgid, *dgid;
	uint16_t slid, dlid;
	uint8_t sl, tclass, hop_limit;
	uint32_t flow_label;
	/* number of the port; scopes addresses that have a meaning on one port only */
	uint32_t port;
	bool v1; /* use RoCE v1, as the type of the source GID says */
	/* report to the sender, where possible, that nobody has the destination port */
	bool told;
};

/* The destination that an address stands for. Equal destinations share a congestion
 * window. */
struct link_dest {
	uint8_t gid[16]; /* zeroes where there is no GRH */
	uint16_t lid;	 /* InfiniBand only */
	uint32_t port;	 /* port it came in by; 0: not known */
	bool group;	 /* a multicast group */
};

/* Headers of a received datagram, for the receiver's completion and buffer. */
enum { LINK_HEAD_LEN = 40 };
struct link_head {
	uint8_t bytes[LINK_HEAD_LEN]; /* the GRH, or the IP header in its place */
	bool grh;
	uint8_t sl, dlid_path_bits;
	uint16_t slid;
};

/* How long a link that was full is not tried again. */
enum { LINK_FULL_NS = 100000 };

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
		/* Writes the trailer of d, the last part to be built. Called before
		 * send() and after d's place in a run is final. Returns 0, or -EFAULT if
		 * a piece is not mapped. NULL: the link has no trailer. */
		int (*seal)(struct link *link, struct dgram *d);
		/* Time in ns when recv() or send() has something to do although no
		 * descriptor becomes readable, such as a delayed datagram; UINT64_MAX:
		 * never. */
		uint64_t (*deadline)(struct link *link);
		void (*close)(struct link *link);

		/* The outermost link only: */
		/* Finds the address of `to`. Returns NULL, or the reason why there is
		 * none. Any thread may call it. */
		const char *(*resolve)(const struct link_to *to, struct link_addr *out);
		/* Did d come from the destination of `path`, addressed to its source? */
		bool (*is_from)(const struct link_addr *path, const struct dgram *d);
		void (*dest)(const struct link_addr *addr, struct link_dest *out);
		void (*head)(const struct dgram *d, struct link_head *out);
	} * ops;
	unsigned run_max; /* most datagrams in one run (GSO); 1: no runs */
	size_t mtu;	  /* longest datagram, BTH to ICRC */
	/* the sender's own, ns: the link was full and is not tried before full_until; it
	 * last took a datagram at took_at */
	uint64_t full_until, took_at;
	/* The source that takes in what the outermost link receives; NULL in tests. */
	struct source *source;
};

/* After send() by the outermost link, which may have put a datagram off. */
static inline void link_sent(struct link *link)
{
	if (link->source)
		source_sooner(link->source, link->ops->deadline(link));
}

#endif
