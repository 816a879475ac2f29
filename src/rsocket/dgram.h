/* SPDX-License-Identifier: BSD-2-Clause */
/* dgram.h - SOCK_DGRAM: how struct rsock_kind is filled for it.  A UDP socket by
 * which ends find each other's QPs; what cannot go by those goes by it, too.
 * docs/rsocket.md. */
#ifndef RSOCKET_DGRAM_H
#define RSOCKET_DGRAM_H

#include "rsocket/sock.h"

/* A new socket without a descriptor.  0 or -errno. */
int rsock_dgram_new(int domain, struct rsock **out);

#endif
