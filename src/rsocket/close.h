/* SPDX-License-Identifier: BSD-2-Clause */
/* close.h - the end of a stream socket: shutdown, close, and what remains to do after
 * close. See "Closing" in docs/dev/rsocket.md. */
#ifndef RSOCKET_CLOSE_H
#define RSOCKET_CLOSE_H

#include "rsocket/conn.h"

/* These are functions of struct rsock_kind; see sock.h. */
int rsock_shutdown(struct rsock *rs, int how);
bool rsock_close(struct rsock *rs);
bool rsock_close_is_over(struct rsock *rs);
bool rsock_close_at_exit(struct rsock *rs);
void rsock_close_free(struct rsock *rs);

#endif
