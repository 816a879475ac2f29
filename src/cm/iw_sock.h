/* SPDX-License-Identifier: BSD-2-Clause */
/* iw_sock.h - TCP sockets for iWARP's connections. All are non-blocking, with descriptor
 * numbers out of the program's way (sys/fd.h). Included inside cm/ only. */
#ifndef CM_IW_SOCK_H
#define CM_IW_SOCK_H

#include "cm/cm.h"

/* Begins to connect. Sets *fd, which is writable when the connection is made or has
 * failed. Binds the source port in `to` if it is free, else any other, and stores in `to`
 * the port used. Returns 0 or -errno. */
int iw_sock_connect(struct cm_target *to, int *fd);
/* Sets the type of service (IPv4) or traffic class (IPv6) of what fd sends. ip is an
 * address of either end and tells the family; tclass 0 leaves the default. */
void iw_sock_set_tos(int fd, const uint8_t ip[16], uint8_t tclass);
/* Returns how an attempt to connect ended: 0 or -errno. */
int iw_sock_result(int fd);

/* Returns a socket bound to the service's address and port, or -errno. any_port: another
 * port would do as well, so no other socket shall share this one, not even with
 * SO_REUSEADDR. */
int iw_sock_bind(const struct cm_service *s, bool any_port);
int iw_sock_listen(int fd, int backlog); /* Returns 0 or -errno. */
/* Returns the descriptor of the next connection, or -errno (-EAGAIN: none). Stores in
 * from the peer's address as dst and ours as src, both in the route and as the programs'
 * addresses. */
int iw_sock_accept(int fd, struct cm_target *from);

#endif
