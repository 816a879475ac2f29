/* SPDX-License-Identifier: BSD-2-Clause */
/* connect.h - connects a socket, and handles the events of rdma_cm. */
#ifndef RSOCKET_CONNECT_H
#define RSOCKET_CONNECT_H

#include "rsocket/conn.h"

/* These are functions of struct rsock_kind. */
int rsock_connect(struct rsock *rs, const struct sockaddr *a, socklen_t len);
enum rsock_after rsock_connect_event(struct rsock *rs, struct rdma_cm_event *ev);

/* Makes the socket new again, but bound to its former address if rbind() was called.
 * Called with the socket's lock, which is released in between. */
void rsock_connect_reset(struct rsock_stream *st);

#endif
