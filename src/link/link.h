/* SPDX-License-Identifier: BSD-2-Clause */
/* link.h - carries datagrams; knows nothing of what is in them.
 *
 * udp.c and loop.c reach another host or process.  fault.c and pcap.c wrap
 * another link and so can be put around any of them.  All calls are made by
 * the holder of the engine's turn; none blocks.
 */
#ifndef LINK_LINK_H
#define LINK_LINK_H

#include <stddef.h>
#include <stdint.h>

#include "link/dgram.h"

struct link {
	const struct link_ops {
		/* Hand over n datagrams.  Returns how many were taken; fewer
		 * when the link is full (a run is taken whole or not at all),
		 * or -errno when it is broken. */
		int (*send)(struct link *link, const struct dgram *v, unsigned n,
			    uint64_t now);
		/* Fill up to n datagrams, valid until the next recv.  Returns
		 * how many; 0 when none waits; -errno when it is broken. */
		int (*recv)(struct link *link, struct dgram *v, unsigned n, uint64_t now);
		/* d, which is built but for its trailer, gets that: before send,
		 * and when ip_id and the addresses are final.  -EFAULT: a piece
		 * is not mapped.  NULL: there is nothing to write. */
		int (*seal)(struct link *link, const struct dgram *d);
		/* When recv or send has something due although no descriptor
		 * says so (a delayed datagram); UINT64_MAX: never. */
		uint64_t (*deadline)(struct link *link);
		void (*close)(struct link *link);
	} * ops;
	unsigned run_max; /* datagrams in one GSO run; 1: none */
	size_t mtu;	  /* longest datagram, BTH to ICRC */
};

#endif
