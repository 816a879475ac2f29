/* SPDX-License-Identifier: BSD-2-Clause */
/* iw_sock.h - TCP sockets for iWARP's connections.  None blocks; descriptors are
 * out of the program's way (sys/fd.h).  Inside cm/ only. */
#ifndef CM_IW_SOCK_H
#define CM_IW_SOCK_H

#include "cm/cm.h"

/* Begin to connect: *fd, writable when it is done, or -errno.  The port that to
 * names is taken if it is free, else any, which to then names. */
int iw_sock_connect(struct cm_target *to, int *fd);
/* Type of service, or traffic class (ip: one of either end's), of what is sent; 0:
 * as it is. */
void iw_sock_set_tos(int fd, const uint8_t ip[16], uint8_t tclass);
/* How did it end?  0 or -errno. */
int iw_sock_result(int fd);

/* A socket that is bound to the service's address and port, or -errno.  any_port:
 * another would do, so no other socket is to share it, even with SO_REUSEADDR. */
int iw_sock_bind(const struct cm_service *s, bool any_port);
int iw_sock_listen(int fd, int backlog); /* 0 or -errno */
/* The next connection, or -errno (-EAGAIN: none).  from: the peer's address is
 * dst, as everywhere; TCP's route is the one that the programs name. */
int iw_sock_accept(int fd, struct cm_target *from);

#endif
