/* SPDX-License-Identifier: BSD-2-Clause */
/* dgpeer.h - whom a datagram socket sends to: which QP they have said they have. */
#ifndef RSOCKET_DGPEER_H
#define RSOCKET_DGPEER_H

#include "rsocket/dgqp.h"

enum { RSOCK_PEERS_MAX = 4096 };

/* The peer with that address, made if there is none.  A pointer to another peer
 * may be bad then: the one that was quiet for longest is forgotten.  0 or
 * -errno. */
int rsock_dgpeer_for(struct rsock_dgram *dg, const struct sockaddr *to,
		     struct rsock_dgpeer **out);
void rsock_dgpeer_free(struct rsock_dgpeer *p);
/* It says that it has this QP, by a datagram to our address. */
void rsock_dgpeer_learn(struct rsock_dgpeer *p, uint32_t qpn);
/* A datagram can go to its QP: it has said so within a second. */
bool rsock_dgpeer_known(const struct rsock_dgpeer *p);
/* A message has come from its QP. */
void rsock_dgpeer_heard(struct rsock_dgram *dg, const struct rsock_dgmsg *m);
#endif
