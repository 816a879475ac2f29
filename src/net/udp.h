/* SPDX-License-Identifier: BSD-2-Clause */
/* udp.h - a link made of UDP sockets.
 *
 * It receives on the wildcard address and a port that the processes of one
 * user share (SO_REUSEPORT), one socket for each address family, and sends from
 * a port of its own, 0xC000..0xFFFF, the same number in both families.  No
 * socket exists before it is needed.  IPv4 goes out with DF and identification
 * k for segment k of a run, so the ICRC can be computed beforehand.
 */
#ifndef NET_UDP_H
#define NET_UDP_H

#include <stdbool.h>
#include <stdint.h>

#include "net/link.h"

struct udp_stats {
	uint64_t tx_dropped; /* datagrams refused by the kernel */
	uint64_t rx_dropped; /* empty or truncated */
};

/* port: where udp_bind() will receive. Opens no socket for it yet. Returns 0 or
 * -errno. */
int udp_open(struct link **out, uint16_t port);

/* Keeps the kernel from merging datagrams (UDP_GRO) for this link. Call it before
 * udp_bind(): the kernel tells the lengths of merged datagrams in a socket only while it
 * may merge. */
void udp_keep_apart(struct link *link);

/* Receives on family (AF_INET, AF_INET6) from now on. Returns 0, also if it did already;
 * -EADDRINUSE, -EAFNOSUPPORT, -EMFILE ... */
int udp_bind(struct link *link, int family);

/* Returns the receiving socket, or -1 if not bound. It is not in the epoll set, where
 * every datagram would cost a wake-up even if nobody sleeps. */
int udp_rx_fd(const struct link *link, int family);

/* An epoll descriptor for further sockets of the owner that belong to this port. */
int udp_epoll(const struct link *link);

/* Returns the port that datagrams are sent from, or -errno. Opens the sockets. */
int udp_sport(struct link *link);

/* Returns a second source port, or -errno. The kernel reports datagrams sent from it
 * that were refused because nobody has their destination port. Opens the sockets. */
int udp_ask_port(struct link *link);

/* Gets the next refused datagram of udp_ask_port(): its destination, and at most max
 * bytes of the quotation. It may be forged. Returns the number of bytes; 0: no more. */
size_t udp_refused(struct link *link, uint8_t ip[16], void *quote, size_t max);

/* Joins or leaves the multicast group ip on the interface. Returns 0; -ENOTCONN if not
 * bound; -errno. */
int udp_join(struct link *link, const uint8_t ip[16], uint32_t ifindex, bool join);

const struct udp_stats *udp_stats(const struct link *link);

/* In the child of a fork: closes the descriptors and does nothing else. */
void udp_forked(struct link *link);

#endif
