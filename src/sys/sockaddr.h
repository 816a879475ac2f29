/* SPDX-License-Identifier: BSD-2-Clause */
/* sockaddr.h - addresses as sockets have them, of IPv4 and IPv6, and (AF_IB) GIDs, whose
 * port is the lower 16 bits of a service ID. */
#ifndef SYS_SOCKADDR_H
#define SYS_SOCKADDR_H

#include <stdint.h>
#include <sys/socket.h>

void sockaddr_ip(const struct sockaddr *a, uint8_t ip[16]);
uint16_t sockaddr_port(const struct sockaddr *a);
/* Of AF_IB. */
uint64_t sockaddr_service(const struct sockaddr *a);
void sockaddr_set_port(struct sockaddr *a, uint16_t port);
/* The interface of a link-local address, else 0. */
uint32_t sockaddr_scope(const struct sockaddr *a);
/* 0: of another family. */
socklen_t sockaddr_len(const struct sockaddr *a);

/* ifindex: taken if ip is link-local.  Returns the length. */
socklen_t sockaddr_set(struct sockaddr_storage *a, const uint8_t ip[16], uint16_t port,
		       uint32_t ifindex);
/* Of AF_IB; all bits of the service ID mean something. */
void sockaddr_set_gid(struct sockaddr_storage *a, const uint8_t gid[16], uint16_t pkey,
		      uint64_t service);

#endif
