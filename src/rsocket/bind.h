/* SPDX-License-Identifier: BSD-2-Clause */
/* bind.h - a stream socket's id, and its addresses. All under the socket's lock;
 * functions return 0 or -errno. */
#ifndef RSOCKET_BIND_H
#define RSOCKET_BIND_H

#include "rsocket/conn.h"

/* Makes the id, if there is none. Calls of the id wait for their events until
 * rsock_bind_to_service(). */
int rsock_bind_make_id(struct rsock_stream *st);
/* Gives the id's events to the service thread to read. */
int rsock_bind_to_service(struct rsock_stream *st);

/* These are functions of struct rsock_kind. */
int rsock_bind(struct rsock *rs, const struct sockaddr *a, socklen_t len);
int rsock_name(struct rsock *rs, bool peer, struct sockaddr *a, socklen_t *len);

#endif
