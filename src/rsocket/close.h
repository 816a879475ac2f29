/* SPDX-License-Identifier: BSD-2-Clause */
/* close.h - the end of a stream socket: shutdown, close, and what is left of it
 * then.  docs/rsocket.md, Closing. */
#ifndef RSOCKET_CLOSE_H
#define RSOCKET_CLOSE_H

#include "rsocket/conn.h"

/* The functions of struct rsock_kind. */
int rsock_shutdown(struct rsock *rs, int how);
bool rsock_close(struct rsock *rs);
bool rsock_close_is_over(struct rsock *rs);
bool rsock_close_at_exit(struct rsock *rs);
void rsock_close_free(struct rsock *rs);

#endif
