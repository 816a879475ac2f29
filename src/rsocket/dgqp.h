/* SPDX-License-Identifier: BSD-2-Clause */
/* dgqp.h - what a datagram socket consists of: its UD QPs, one for each local address
 * that it sends from, and its peers. All under the socket's lock. */
#ifndef RSOCKET_DGQP_H
#define RSOCKET_DGQP_H

#include <infiniband/verbs.h>
#include <string.h>

#include "rsocket/os.h"
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

/* --- QPs ----------------------------------------------------------------- */

/* MTU: rdma-core's receives are no longer. */
enum { RSOCK_DG_GRH = 40, RSOCK_DG_SLOTS = 64, RSOCK_DG_MTU = 2048 };

/* mem has RSOCK_DG_SLOTS slots for sending, then the slots for receiving. */
struct rsock_dgqp {
	struct list node;
	struct rsock_dgram *dg;
	struct rsock_port port;
	uint8_t ip[16];
	uint32_t ifindex;
	uint32_t mtu, slot_size;
	struct ibv_qp *qp;
	struct ibv_cq *rcq, *scq;
	struct ibv_comp_channel *ch;
	uint8_t *mem;
	size_t mem_size;
	struct ibv_mr *mr;
	uint64_t free_slots; /* a bit for each free slot for sending */
	bool armed_r, armed_s;
};

/* Finds the QP of that address, or makes it. Returns 0 or -errno. */
int rsock_dgqp_for(struct rsock_dgram *dg, const uint8_t ip[16], uint32_t ifindex,
		   struct rsock_dgqp **out);
void rsock_dgqp_free(struct rsock_dgqp *q);
/* Posts a receive into a slot whose message has been read. */
void rsock_dgqp_receive(struct rsock_dgqp *q, uint32_t slot);
/* Handles completions; queues messages at the socket. Returns true if there were any. */
bool rsock_dgqp_progress(struct rsock_dgqp *q);
/* Waits until all sends have completed, 100 ms at most. */
void rsock_dgqp_drain(struct rsock_dgqp *q);
void rsock_dgqp_arm(struct rsock_dgqp *q);

/* rsock_dgqp_slot() takes a slot for a message, or returns -1; rsock_dgqp_memory() is its
 * memory; rsock_dgqp_send() sends it and returns 0 or -errno. */
int rsock_dgqp_slot(struct rsock_dgqp *q);
uint8_t *rsock_dgqp_memory(struct rsock_dgqp *q, uint32_t slot);
int rsock_dgqp_send(struct rsock_dgqp *q, const struct rsock_dgpeer *to, uint32_t slot,
		    uint32_t len);

/* --- peers --------------------------------------------------------------- */

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
