/* SPDX-License-Identifier: BSD-2-Clause */
/* udp_rx.h - receives datagrams from UDP sockets: many in one system call, merged ones
 * (UDP_GRO) split again. For net/udp.c. */
#ifndef NET_UDP_RX_H
#define NET_UDP_RX_H

#include <stdbool.h>
#include <stdint.h>

#include "net/dgram.h"
#include "net/udp_sock.h"

struct udp_rx;

struct udp_rx *udp_rx_new(uint16_t port); /* NULL: no memory */
void udp_rx_free(struct udp_rx *r);

/* Forgets all datagrams; the buffers of those given out are reused. */
void udp_rx_reset(struct udp_rx *r);

/* Reads at most n messages of socket fd. Returns 0, also if none waits; -EBADF. */
int udp_rx_fill(struct udp_rx *r, int fd, unsigned n);

/* Gives out the next datagrams, at most n, valid until udp_rx_reset(). */
unsigned udp_rx_give(struct udp_rx *r, struct dgram *v, unsigned n);
bool udp_rx_left(const struct udp_rx *r); /* are there more to give out? */
uint64_t udp_rx_dropped(const struct udp_rx *r);

#endif
