/* SPDX-License-Identifier: BSD-2-Clause */
/* port.h - the NIC's UDP port: a link made of sockets (link/udp), steering
 * between the processes of a user (nic/steer) and forwarding (host/).
 *
 * Nothing is bound before port_bind().  A process that finds the port taken by
 * another user's urnic lives from what that user's processes forward, if share lets it
 * (they can read and change it), and tries again when the connection to it
 * closes.
 */
#ifndef NIC_PORT_H
#define NIC_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "link/link.h"
#include "sys/conf.h"

struct port;
struct host;

struct port_stats {
	uint64_t rx, tx, rx_drops, misdelivered, forwarded, rediscoveries;
};

/* host: for forwarding; its datagrams arrive through port_deliver(). */
int port_open(struct port **out, struct host *host, uint16_t udp_port,
	      enum conf_share share);
void port_close(struct port *port);
struct link *port_link(struct port *port);

/* See udp_keep_apart().  Before port_bind(). */
void port_keep_apart(struct port *port);

/* Bind the address family (AF_INET or AF_INET6) if it is not yet.  0;
 * -EADDRINUSE with one error line that names the holder if it is no urnic, or
 * another user's that may not carry this one's traffic. */
int port_bind(struct port *port, int family);
/* What to sleep on: the receiving socket of a family (-1: not bound, and that
 * may change with port_bind()), and an epoll descriptor for all else. */
int port_rx_fd(const struct port *port, int family);
int port_fd(const struct port *port);

/* It receives nothing, nor has anything received: to look costs no system call. */
bool port_is_idle(const struct port *port);

/* The UDP port that datagrams leave from, in both families; opens the sockets.
 * 0: it cannot. */
uint16_t port_sport(struct port *port);

/* Of what leaves from there it is told if nobody has the port that it went to, by
 * port_refused(): link/udp.h.  0: it cannot be opened. */
uint16_t port_ask_port(struct port *port);
size_t port_refused(struct port *port, uint8_t ip[16], void *quote, size_t max);

/* What host_ops calls. */
void port_deliver(struct port *port, const struct dgram *d);
void port_peer_gone(struct port *port, uint16_t slot);

/* Join or leave the multicast group ip on the interface; counted.  -EADDRINUSE:
 * another user has the port, and multicast is not forwarded. */
int port_join(struct port *port, const uint8_t ip[16], uint32_t ifindex, bool join);

/* Steering probes, bind retries: what is due.  Returns the next deadline. */
uint64_t port_run(struct port *port, uint64_t now);

const struct port_stats *port_stats(const struct port *port);
void port_forked(struct port *port);

#endif
