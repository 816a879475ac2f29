/* SPDX-License-Identifier: BSD-2-Clause */
/* streamsock.h - SOCK_STREAM sockets: their struct rsock_kind. */
#ifndef RSOCKET_STREAMSOCK_H
#define RSOCKET_STREAMSOCK_H

#include "rsocket/sock.h"

/* Makes a socket without a descriptor. Returns 0 or -errno. */
int rsock_streamsock_new(int domain, struct rsock **out);

#endif
