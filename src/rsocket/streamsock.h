/* SPDX-License-Identifier: BSD-2-Clause */
/* streamsock.h - SOCK_STREAM: how struct rsock_kind is filled for it. */
#ifndef RSOCKET_STREAMSOCK_H
#define RSOCKET_STREAMSOCK_H

#include "rsocket/sock.h"

/* A new socket without a descriptor.  0 or -errno. */
int rsock_streamsock_new(int domain, struct rsock **out);

#endif
