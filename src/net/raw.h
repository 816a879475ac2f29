/* SPDX-License-Identifier: BSD-2-Clause */
/* raw.h - wraps a link of UDP sockets and adds packet sockets (AF_PACKET). Packets for
 * this process's QPs on a covered interface are received from the packet socket, with
 * their real headers; packets to a neighbour whose MAC address the kernel knows are sent
 * by one. All others use the UDP link (docs/dev/raw.md). RoCE v1 uses packet sockets
 * alone and waits for the neighbour's MAC address.
 *
 * CAP_NET_RAW in the network namespace is needed only when the link is opened.
 */
#ifndef NET_RAW_H
#define NET_RAW_H

#include <stdbool.h>
#include <stdint.h>

#include "net/link.h"

struct raw_conf {
	uint16_t port; /* UDP port of RoCE v2 */
	uint16_t slot; /* slot in this process's QP numbers */
	/* Is ip an address of this network namespace? Called with the turn held. */
	bool (*is_ours)(const uint8_t ip[16]);
};

struct raw_stats {
	uint64_t rx, tx;    /* datagrams by packet sockets */
	uint64_t tx_by_udp; /* sent by UDP, the neighbour being unknown */
	/* destination not ours, or source impossible (ours, loopback, a group) */
	uint64_t rx_dropped;
	uint64_t rx_twice; /* also came by UDP */
};

/* Wraps inner, which the new link closes. Returns 0; -EPERM without CAP_NET_RAW;
 * -errno. */
int raw_wrap(struct link **out, struct link *inner, const struct raw_conf *conf);

/* Receives from this interface from now on; lo is left to the kernel. Returns 0, also if
 * it is already covered; -ENOSPC if there are too many. */
int raw_cover(struct link *link, uint32_t ifindex);

/* Makes fd, a UDP socket on the port or -1, ignore the packets that the packet socket
 * receives. The kernel must not merge datagrams for fd (udp_keep_apart()): the filter
 * would see the header of the first alone. */
void raw_share(struct link *link, int fd);

int raw_rx_fd(const struct link *link);
const struct raw_stats *raw_stats(const struct link *link);

/* In the child of a fork: closes the descriptors and does nothing else. */
void raw_forked(struct link *link);

#endif
