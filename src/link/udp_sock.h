/* SPDX-License-Identifier: BSD-2-Clause */
/* udp_sock.h - the sockets of link/udp.c, with their options. */
#ifndef LINK_UDP_SOCK_H
#define LINK_UDP_SOCK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

union sock_addr {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* fd, of udp_receiver(), gets each datagram by itself. */
void udp_no_gro(int fd);

/* A socket that takes in datagrams, not bound yet.  -errno. */
int udp_receiver(int family);
/* Bind it to the wildcard address and port, which is shared by the sockets that
 * were made by one user.  0 or -errno. */
int udp_receive_on(int fd, int family, uint16_t port);

/* Senders for IPv4 and IPv6 on one port of their own, which is returned; -1
 * where a family does not exist.  *cuts: UDP_SEGMENT is known.  -errno. */
int udp_senders(int tx[2], bool *cuts);

#endif
