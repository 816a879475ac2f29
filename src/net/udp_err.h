/* SPDX-License-Identifier: BSD-2-Clause */
/* udp_err.h - reads ICMP errors about sent datagrams. The kernel queues them at the
 * socket (IP_RECVERR) and lets the socket's next send fail. For net/udp.c. */
#ifndef NET_UDP_ERR_H
#define NET_UDP_ERR_H

#include <stddef.h>
#include <stdint.h>

void udp_err_enable(int fd, int family);

/* Gets the next datagram that was refused because nobody has its destination port: the
 * destination, and at most max bytes of the quotation. Any host that knows our port can
 * forge one; the datagram's sender can tell. Returns the number of bytes; 0: no more. */
size_t udp_err_next(int fd, uint8_t ip[16], void *quote, size_t max);

#endif
