/* SPDX-License-Identifier: BSD-2-Clause */
/* peer.h - the TCP connection on which two stress processes find each other. */
#ifndef STRESS_PEER_H
#define STRESS_PEER_H

#include <stddef.h>

/* host NULL: waits for one connection on port. Otherwise connects, for up to 10 s while
 * nobody listens. Exits with a message on failure. */
int peer_meet(const char *host, const char *port);

/* Sends mine and receives theirs, n bytes each; this is also a barrier. */
void peer_swap(int sock, const void *mine, void *theirs, size_t n);

#endif
