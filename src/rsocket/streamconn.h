/* SPDX-License-Identifier: BSD-2-Clause */
/* streamconn.h - connects a stream socket, handles the events of rdma_cm, and ends the
 * socket: shutdown, close, and what remains to do after close (see "Closing" in
 * docs/dev/rsocket.md). */
#ifndef RSOCKET_STREAMCONN_H
#define RSOCKET_STREAMCONN_H

#include "rsocket/streamep.h"

/* --- connecting ---------------------------------------------------------- */

/* These are functions of struct rsock_kind. */
int rsock_connect(struct rsock *rs, const struct sockaddr *a, socklen_t len);
enum rsock_after rsock_connect_event(struct rsock *rs, struct rdma_cm_event *ev);

/* Makes the socket new again, but bound to its former address if rbind() was called.
 * Called with the socket's lock, which is released in between. */
void rsock_connect_reset(struct rsock_stream *st);

/* --- the end ------------------------------------------------------------- */

/* These are functions of struct rsock_kind; see sock.h. */
int rsock_shutdown(struct rsock *rs, int how);
bool rsock_close(struct rsock *rs);
bool rsock_close_is_over(struct rsock *rs);
bool rsock_close_at_exit(struct rsock *rs);
void rsock_close_free(struct rsock *rs);

#endif
