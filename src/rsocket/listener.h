/* SPDX-License-Identifier: BSD-2-Clause */
/* listener.h - listening: connections are accepted by the service thread as far as
 * the backlog goes, so that a connect need not wait for raccept(). */
#ifndef RSOCKET_LISTENER_H
#define RSOCKET_LISTENER_H

#include "rsocket/conn.h"

/* Under the socket's lock: 0, or a descriptor, or -errno. */
int rsock_listen(struct rsock_stream *st, int backlog);
int rsock_accept(struct rsock_stream *st, struct sockaddr *a, socklen_t *len);

/* Under no lock: a request has come; a listener's connection has been made, or
 * has failed, which answers what becomes of it. */
enum rsock_after rsock_listener_request(struct rsock_stream *st,
					struct rdma_cm_event *ev);
enum rsock_after rsock_listener_settle(struct rsock_stream *child, bool made);
/* The connections that the program does not have are let go. */
void rsock_listener_empty(struct rsock_stream *st);

#endif
