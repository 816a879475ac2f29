/* SPDX-License-Identifier: BSD-2-Clause */
/* dgsock.h - the struct of a datagram socket, which dgqp.c, dgpeer.c and dgram.c share.
 * All under the socket's lock. */
#ifndef RSOCKET_DGSOCK_H
#define RSOCKET_DGSOCK_H

#include <infiniband/verbs.h>
#include <string.h>

#include "rsocket/sock.h"
#include "sys/list.h"

enum { RSOCK_UDP_MAX = 65507 };

struct rsock_dgqp;

/* A datagram that came and is not read yet. If it came by a QP, the data is in that QP's
 * slot; if by UDP, behind this struct. */
struct rsock_dgmsg {
	struct list node;
	struct rsock_dgqp *qp; /* NULL: came by UDP */
	uint32_t slot;
	uint8_t *data;
	uint32_t len;
	uint8_t ip[16]; /* the sender's address */
	uint16_t port;
	uint32_t ifindex;
};

struct rsock_dgpeer {
	struct list node;
	uint8_t ip[16];
	uint16_t port;
	uint32_t ifindex;
	struct rsock_dgqp *via; /* our QP for it */
	struct ibv_ah *ah;
	uint32_t qpn;	/* 0: not known */
	uint64_t heard; /* when it last named its QP or sent from it, rsock_now() */
	uint64_t used;	/* when either end last sent, as rsock_now() */
};

struct rsock_dgram {
	struct rsock sock; /* must be first */
	int udp, ep;	   /* ep: the epoll set of udp and all QPs' channels */
	struct list qps, peers, msgs;
	unsigned npeers, turns;
	size_t queued;			/* bytes of memory of the msgs that came by UDP */
	struct rsock_dgpeer *peer;	/* if connected, else NULL */
	uint16_t port;			/* our port; 0: not bound */
	uint8_t buf[RSOCK_UDP_MAX + 1]; /* buffer for a datagram from udp */
};

static inline struct rsock_dgram *rsock_dgram_of(struct rsock *rs)
{
	return (struct rsock_dgram *)rs;
}

/* Does the socket take messages from this sender? A connected socket takes only its
 * peer's. */
static inline bool rsock_dgram_wants(const struct rsock_dgram *dg, const uint8_t ip[16],
				     uint16_t port)
{
	return !dg->peer || (dg->peer->port == port && !memcmp(dg->peer->ip, ip, 16));
}

#endif
