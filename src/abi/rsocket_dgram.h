/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket_dgram.h - what the files of datagram rsockets share. */
#ifndef ABI_RSOCKET_DGRAM_H
#define ABI_RSOCKET_DGRAM_H

#include "abi/rsocket.h"

/* DG_MTU: rdma-core's receives have no more. */
enum { DG_GRH = 40, DG_SLOTS = 64, DG_UDP_MAX = 65507, DG_MTU = 2048 };

/* A QP for one address of ours.  Slots for sending, then those for receiving. */
struct dg_qp {
	struct list node;
	struct rsock *rs;
	struct cma_dev *dev;
	int sgid_index;
	uint8_t ip[16];
	uint32_t ifindex;
	uint32_t mtu, slot_size;
	struct ibv_qp *qp;
	struct ibv_cq *rcq, *scq;
	struct ibv_comp_channel *ch;
	uint8_t *mem;
	size_t mem_size;
	struct ibv_mr *mr;
	uint64_t free_slots;		/* a bit for each of those for sending */
	bool armed_r, armed_s;
};

/* Somebody that we send to. */
struct dg_peer {
	struct list node;
	uint8_t ip[16];
	uint16_t port;
	uint32_t ifindex;
	struct dg_qp *via;		/* our end */
	struct ibv_ah *ah;
	uint32_t qpn;			/* 0: not known */
	uint64_t heard;			/* when it last said so, rsock_now() */
	uint64_t used;			/* when we last sent to it, or it to us */
};

/* A datagram that came.  By a QP: in its slot; by UDP: behind this struct. */
struct dg_msg {
	struct list node;
	struct dg_qp *qp;
	uint32_t slot;
	uint8_t *data;
	uint32_t len;
	uint8_t ip[16];
	uint16_t port;
	uint32_t ifindex;
};

struct rsock_dgram {
	int udp, ep;			/* ep: the UDP socket and all channels */
	struct list qps, peers, msgs;
	unsigned npeers, turns;
	size_t queued;			/* memory of those that came by UDP */
	struct dg_peer *peer;		/* of a connected one */
	uint16_t port;			/* ours; 0: not bound */
	uint8_t buf[DG_UDP_MAX + 1];	/* what comes by UDP */
};

/* 0 or -errno. */
int dg_qp_for(struct rsock *rs, const uint8_t ip[16], uint32_t ifindex,
	      struct dg_qp **out);
void dg_qp_free(struct dg_qp *q);
void dg_qp_receive(struct dg_qp *q, uint32_t slot);	/* slot is to be used again */
bool dg_qp_progress(struct dg_qp *q);		/* true: there was something */
void dg_qp_drain(struct dg_qp *q);
void dg_qp_arm(struct dg_qp *q);
/* A slot to put a message into, or -1; its memory. */
int dg_qp_slot(struct dg_qp *q);
uint8_t *dg_qp_memory(struct dg_qp *q, uint32_t slot);
int dg_qp_send(struct dg_qp *q, struct dg_peer *to, uint32_t slot, uint32_t len);

/* Pointers to others may be bad then. */
int dg_peer_for(struct rsock *rs, const struct sockaddr *to, struct dg_peer **out);
void dg_peer_free(struct dg_peer *p);
/* It says that it has this QP, and has sent to that address of ours. */
void dg_peer_learn(struct dg_peer *p, uint32_t qpn);
bool dg_peer_known(const struct dg_peer *p);
/* A connected socket takes its peer's messages only. */
bool dg_wants(const struct rsock_dgram *dg, const uint8_t ip[16], uint16_t port);

#endif
