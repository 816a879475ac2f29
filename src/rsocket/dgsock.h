/* SPDX-License-Identifier: BSD-2-Clause */
/* dgsock.h - SOCK_DGRAM sockets. Each has a UDP socket, by which the ends learn of each
 * other's QPs, and which carries what the QPs cannot. See docs/dev/rsocket.md. */
#ifndef RSOCKET_DGSOCK_H
#define RSOCKET_DGSOCK_H

#include "rsocket/sock.h"

/* Makes a socket without a descriptor. Returns 0 or -errno. */
int rsock_dgram_new(int domain, struct rsock **out);

#endif
