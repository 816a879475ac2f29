/* SPDX-License-Identifier: BSD-2-Clause */
/* raw.h - a link of packet sockets (AF_PACKET) beside one of UDP sockets, which it wraps:
 * what comes for this process's QPs by an interface that it covers comes from the packet
 * socket, with the headers as they were; what goes to a neighbour whose MAC address the
 * kernel knows goes by one.  All else is the UDP link's (docs/raw.md).  RoCE v1 goes and
 * comes by packets alone, and waits for the neighbour's MAC address.
 *
 * It needs CAP_NET_RAW in the network namespace when it is opened, and not later.
 */
#ifndef LINK_RAW_H
#define LINK_RAW_H

#include <stdbool.h>
#include <stdint.h>

#include "link/link.h"

struct raw_conf {
	uint16_t port; /* UDP's, of RoCE v2 */
	uint16_t slot; /* of this process's QPs */
	/* Is ip an address of this network namespace?  Turn held. */
	bool (*is_ours)(const uint8_t ip[16]);
};

struct raw_stats {
	uint64_t rx, tx;     /* datagrams by packet sockets */
	uint64_t tx_by_udp;  /* to no neighbour that is known */
	uint64_t rx_dropped; /* not to an address of ours, or from none that is another's
			      */
	uint64_t rx_twice;   /* came by UDP, too */
};

/* The new link closes inner with itself.  -EPERM: no CAP_NET_RAW. */
int raw_wrap(struct link **out, struct link *inner, const struct raw_conf *conf);

/* Take in what comes by this interface from now on; not lo, which is the kernel's.  0,
 * also when it does so already; -ENOSPC: there are too many. */
int raw_cover(struct link *link, uint32_t ifindex);

/* fd, a UDP socket on the port, or -1, takes in nothing that the packet socket does.  The
 * kernel must not merge datagrams for fd (udp_keep_apart()): the filter would see the
 * header of the first alone. */
void raw_share(struct link *link, int fd);

int raw_rx_fd(const struct link *link);
const struct raw_stats *raw_stats(const struct link *link);

/* In the child of a fork: close the descriptors and nothing else. */
void raw_forked(struct link *link);

#endif
