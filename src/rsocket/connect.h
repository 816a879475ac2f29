/* SPDX-License-Identifier: BSD-2-Clause */
/* connect.h - from a socket to a connection, and what rdma_cm tells of it. */
#ifndef RSOCKET_CONNECT_H
#define RSOCKET_CONNECT_H

#include "rsocket/conn.h"

/* The functions of struct rsock_kind. */
int rsock_connect(struct rsock *rs, const struct sockaddr *a, socklen_t len);
enum rsock_after rsock_connect_event(struct rsock *rs, struct rdma_cm_event *ev);

/* Under the lock, which is released meanwhile: the socket becomes new, with the
 * address that it was bound to. */
void rsock_connect_reset(struct rsock_stream *st);

#endif
