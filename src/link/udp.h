/* SPDX-License-Identifier: BSD-2-Clause */
/* udp.h - a link made of UDP sockets.
 *
 * It receives on the wildcard address and a port that the processes of one
 * user share (SO_REUSEPORT), one socket for each address family, and sends from
 * a port of its own, 0xC000..0xFFFF, the same number in both families.  No
 * socket exists before it is needed.  IPv4 goes out with DF and identification
 * k for segment k of a run, so the ICRC can be computed beforehand.
 */
#ifndef LINK_UDP_H
#define LINK_UDP_H

#include <stdbool.h>
#include <stdint.h>

#include "link/link.h"

struct udp_stats {
	uint64_t tx_dropped; /* datagrams refused by the kernel */
	uint64_t rx_dropped; /* empty or truncated */
};

/* port: where to receive, and nothing but a number until udp_bind(). */
int udp_open(struct link **out, uint16_t port);

/* The kernel is not to merge datagrams (UDP_GRO) for this link.  Before udp_bind(): once
 * merged ones wait in a socket, their lengths are told only while it may merge. */
void udp_keep_apart(struct link *link);

/* Receive on family (AF_INET, AF_INET6) from now on.  0, also when it does so
 * already; -EADDRINUSE, -EAFNOSUPPORT, -EMFILE ... */
int udp_bind(struct link *link, int family);

/* -1: not bound.  Not in the epoll set: that would cost every datagram a
 * wake-up call, also while nobody sleeps. */
int udp_rx_fd(const struct link *link, int family);

/* An epoll descriptor for the owner's sockets that belong to this port. */
int udp_epoll(const struct link *link);

/* The port that datagrams leave from; opens the sockets.  -errno. */
int udp_sport(struct link *link);

/* Another such port: what leaves from it the kernel tells of if nobody has the port
 * that it went to.  Opens the sockets.  -errno. */
int udp_ask_port(struct link *link);

/* The next datagram of those: where it went, and as much of it as was quoted, at
 * most max bytes.  Anybody may have made that up.  Returns how much; 0: no more. */
size_t udp_refused(struct link *link, uint8_t ip[16], void *quote, size_t max);

/* Join or leave the group ip on the interface.  -ENOTCONN: not bound. */
int udp_join(struct link *link, const uint8_t ip[16], uint32_t ifindex, bool join);

const struct udp_stats *udp_stats(const struct link *link);

/* In the child of a fork: close the descriptors and nothing else. */
void udp_forked(struct link *link);

#endif
