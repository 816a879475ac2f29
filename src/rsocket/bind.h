/* SPDX-License-Identifier: BSD-2-Clause */
/* bind.h - a stream socket's id, and its addresses.  All under the socket's lock;
 * 0 or -errno. */
#ifndef RSOCKET_BIND_H
#define RSOCKET_BIND_H

#include "rsocket/conn.h"

/* Makes the id, if there is none; its calls wait until it is moved. */
int rsock_bind_make_id(struct rsock_stream *st);
/* From here on the service thread reads the id's events. */
int rsock_bind_to_service(struct rsock_stream *st);

/* The functions of struct rsock_kind. */
int rsock_bind(struct rsock *rs, const struct sockaddr *a, socklen_t len);
int rsock_name(struct rsock *rs, bool peer, struct sockaddr *a, socklen_t *len);

#endif
