/* SPDX-License-Identifier: BSD-2-Clause */
/* udp_err.h - what the network answers to datagrams (ICMP), where a socket asks for
 * it: the kernel lays it into the socket's error queue (IP_RECVERR), and lets its
 * next send fail.  For link/udp.c. */
#ifndef LINK_UDP_ERR_H
#define LINK_UDP_ERR_H

#include <stddef.h>
#include <stdint.h>

void udp_err_enable(int fd, int family);

/* The next datagram that was refused as nobody has the port: where it went, and as
 * much of it as was quoted, at most max bytes.  Any host that knows our
 * port may have made that up: the sender of the datagram can tell.  Returns how much; 0:
 * there is none. */
size_t udp_err_next(int fd, uint8_t ip[16], void *quote, size_t max);

#endif
