/* SPDX-License-Identifier: BSD-2-Clause */
/* dgsock.h - a datagram socket: what dgqp.c, dgpeer.c and dgram.c share.  All under
 * the socket's lock. */
#ifndef RSOCKET_DGSOCK_H
#define RSOCKET_DGSOCK_H

#include <infiniband/verbs.h>
#include <string.h>

#include "rsocket/sock.h"
#include "sys/list.h"

enum { RSOCK_UDP_MAX = 65507 };

struct rsock_dgqp;

/* A datagram that came, and was not read yet.  By a QP: it lies in that QP's slot;
 * by UDP: behind this struct. */
struct rsock_dgmsg {
	struct list node;
	struct rsock_dgqp *qp; /* NULL: by UDP */
	uint32_t slot;
	uint8_t *data;
	uint32_t len;
	uint8_t ip[16]; /* the sender's */
	uint16_t port;
	uint32_t ifindex;
};

struct rsock_dgpeer {
	struct list node;
	uint8_t ip[16];
	uint16_t port;
	uint32_t ifindex;
	struct rsock_dgqp *via; /* our end */
	struct ibv_ah *ah;
	uint32_t qpn;	/* 0: not known */
	uint64_t heard; /* when it last said so, rsock_now() */
	uint64_t used;	/* when we last sent to it, or it to us */
};

struct rsock_dgram {
	struct rsock sock; /* first */
	int udp, ep;	   /* ep: an epoll set of udp and all QPs' channels */
	struct list qps, peers, msgs;
	unsigned npeers, turns;
	size_t queued;			/* memory of those that came by UDP */
	struct rsock_dgpeer *peer;	/* of a connected socket, else NULL */
	uint16_t port;			/* ours; 0: not bound */
	uint8_t buf[RSOCK_UDP_MAX + 1]; /* for what comes by UDP */
};

static inline struct rsock_dgram *rsock_dgram_of(struct rsock *rs)
{
	return (struct rsock_dgram *)rs;
}

/* A connected socket takes its peer's messages only. */
static inline bool rsock_dgram_wants(const struct rsock_dgram *dg, const uint8_t ip[16],
				     uint16_t port)
{
	return !dg->peer || (dg->peer->port == port && !memcmp(dg->peer->ip, ip, 16));
}

#endif
