/* SPDX-License-Identifier: BSD-2-Clause */
/* sockaddr.h - socket addresses of IPv4, IPv6 and AF_IB (GIDs).  The port of an AF_IB
 * address is the lower 16 bits of its service ID. */
#ifndef SYS_SOCKADDR_H
#define SYS_SOCKADDR_H

#include <stdint.h>
#include <sys/socket.h>

void sockaddr_ip(const struct sockaddr *a, uint8_t ip[16]);
uint16_t sockaddr_port(const struct sockaddr *a);
/* The service ID of an AF_IB address. */
uint64_t sockaddr_service(const struct sockaddr *a);
void sockaddr_set_port(struct sockaddr *a, uint16_t port);
/* The interface index of a link-local address, else 0. */
uint32_t sockaddr_scope(const struct sockaddr *a);
/* Returns 0 for another family. */
socklen_t sockaddr_len(const struct sockaddr *a);

/* ifindex is used only if ip is link-local.  Returns the length. */
socklen_t sockaddr_set(struct sockaddr_storage *a, const uint8_t ip[16], uint16_t port,
		       uint32_t ifindex);
/* Makes an AF_IB address whose mask says that all bits of the service ID count. */
void sockaddr_set_gid(struct sockaddr_storage *a, const uint8_t gid[16], uint16_t pkey,
		      uint64_t service);

#endif
