/* SPDX-License-Identifier: BSD-2-Clause */
/* dgpeer.h - the peers of a datagram socket: their addresses and QPs. */
#ifndef RSOCKET_DGPEER_H
#define RSOCKET_DGPEER_H

#include "rsocket/dgqp.h"

enum { RSOCK_PEERS_MAX = 4096 };

/* Finds the peer with that address, or makes it. Pointers to other peers may be invalid
 * afterwards, since the one that was quiet for longest is freed if there are too many.
 * Returns 0 or -errno. */
int rsock_dgpeer_for(struct rsock_dgram *dg, const struct sockaddr *to,
		     struct rsock_dgpeer **out);
void rsock_dgpeer_free(struct rsock_dgpeer *p);
/* Stores the QP that the peer has named in a datagram to our address. */
void rsock_dgpeer_learn(struct rsock_dgpeer *p, uint32_t qpn);
/* Can a datagram go to the peer's QP? Only if the peer was heard of within a second. */
bool rsock_dgpeer_known(const struct rsock_dgpeer *p);
/* Notes that the sender of m, which came from its QP, is alive. */
void rsock_dgpeer_heard(struct rsock_dgram *dg, const struct rsock_dgmsg *m);
#endif
