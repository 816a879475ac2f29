/* SPDX-License-Identifier: BSD-2-Clause */
/* udp_sock.h - the sockets of net/udp.c, with their options. */
#ifndef NET_UDP_SOCK_H
#define NET_UDP_SOCK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

union sock_addr {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* Keeps the kernel from merging datagrams for fd, a socket of udp_receiver(). */
void udp_no_gro(int fd);

/* Makes a socket for receiving, not bound yet. Returns it, or -errno. */
int udp_receiver(int family);
/* Binds fd to the wildcard address and the port, which sockets made by the same user
 * share. Returns 0 or -errno. */
int udp_receive_on(int fd, int family, uint16_t port);

/* Opens sending sockets for IPv4 and IPv6 on one port of their own; tx[i] is -1 where
 * the family does not exist. *cuts: the kernel knows UDP_SEGMENT. Returns the port, or
 * -errno. */
int udp_senders(int tx[2], bool *cuts);

#endif
