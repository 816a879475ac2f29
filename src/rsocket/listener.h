/* SPDX-License-Identifier: BSD-2-Clause */
/* listener.h - a stream socket's id and its addresses; listening sockets. The service
 * thread accepts connections as far as the backlog allows, so a connect need not wait for
 * raccept(). */
#ifndef RSOCKET_LISTENER_H
#define RSOCKET_LISTENER_H

#include "rsocket/streamep.h"

/* --- ids and addresses --------------------------------------------------- */

/* All under the socket's lock; functions return 0 or -errno. */

/* Makes the id, if there is none. Calls of the id wait for their events until
 * rsock_bind_to_service(). */
int rsock_bind_make_id(struct rsock_stream *st);
/* Gives the id's events to the service thread to read. */
int rsock_bind_to_service(struct rsock_stream *st);

/* These are functions of struct rsock_kind. */
int rsock_bind(struct rsock *rs, const struct sockaddr *a, socklen_t len);
int rsock_name(struct rsock *rs, bool peer, struct sockaddr *a, socklen_t *len);

/* --- listening ----------------------------------------------------------- */

/* Called under the socket's lock. Return 0, or a descriptor, or -errno. */
int rsock_listen(struct rsock_stream *st, int backlog);
int rsock_accept(struct rsock_stream *st, struct sockaddr *a, socklen_t *len);

/* Called without a lock by the service thread: rsock_listener_request() when a request
 * has come, rsock_listener_settle() when a listener's connection has been made or has
 * failed. Both return what the service thread has to do next. */
enum rsock_after rsock_listener_request(struct rsock_stream *st,
					struct rdma_cm_event *ev);
enum rsock_after rsock_listener_settle(struct rsock_stream *child, bool made);
/* Lets go of all connections that the program has not accepted. */
void rsock_listener_empty(struct rsock_stream *st);

#endif
