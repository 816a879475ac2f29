/* SPDX-License-Identifier: BSD-2-Clause */
/* port.h - the NIC's UDP port: a link made of sockets (net/udp), steering between the
 * processes of a user (driver/steer) and forwarding (host/).
 *
 * port_bind() binds the port. If another user's urnic holds it, this process receives
 * what that user's processes forward, provided that `share` allows it (they can read and
 * change the packets), and tries again to bind when its connection to that urnic
 * closes.
 */
#ifndef DRIVER_PORT_H
#define DRIVER_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "net/link.h"
#include "sys/conf.h"

struct port;
struct host;

struct port_stats {
	uint64_t rx, tx, rx_drops, misdelivered, forwarded, rediscoveries;
};

/* host: for forwarding; datagrams from it arrive by port_deliver(). */
int port_open(struct port **out, struct host *host, uint16_t udp_port,
	      enum conf_share share);
void port_close(struct port *port);
struct link *port_link(struct port *port);

/* udp_keep_apart() for both families; before port_bind(). */
void port_keep_apart(struct port *port);

/* Binds the address family (AF_INET or AF_INET6), unless bound. Returns 0; -EADDRINUSE,
 * with one error line, if the holder is no urnic or another user's that may not carry
 * our traffic. */
int port_bind(struct port *port, int family);
/* What to sleep on: the receiving socket of a family (-1: not bound, until port_bind()),
 * and an epoll descriptor for everything else. */
int port_rx_fd(const struct port *port, int family);
int port_fd(const struct port *port);

/* Has port_bind() not yet bound the family, nor found a process that forwards it? */
bool port_is_closed(const struct port *port, int family);

/* Is nothing bound and nothing waiting? Then a look for input costs no system call. */
bool port_is_idle(const struct port *port);

/* The UDP source port of sent datagrams, in both families; opens the sockets. 0:
 * failed. */
uint16_t port_sport(struct port *port);

/* A second source port: port_refused() reports datagrams from it that were refused
 * because nobody has their destination port (see net/udp.h). 0: it cannot be opened. */
uint16_t port_ask_port(struct port *port);
size_t port_refused(struct port *port, uint8_t ip[16], void *quote, size_t max);

/* Forwards the datagrams for other processes that wait in the sockets, and drops those
 * for this process and for the host: the port is about to be closed. v: room for n
 * datagrams. */
void port_forward(struct port *port, struct dgram *v, unsigned n, uint64_t now);

/* Callbacks for host_ops. */
void port_deliver(struct port *port, const struct dgram *d);
void port_peer_gone(struct port *port, uint16_t slot);

/* Joins or leaves multicast group ip on the interface; calls are counted. Returns 0;
 * -EADDRINUSE if another user has the port, since multicast is not forwarded; -errno. */
int port_join(struct port *port, const uint8_t ip[16], uint32_t ifindex, bool join);

/* Does what is due: steering probes, retries of bind. Returns the next deadline, ns. */
uint64_t port_run(struct port *port, uint64_t now);

const struct port_stats *port_stats(const struct port *port);
void port_forked(struct port *port);

#endif
