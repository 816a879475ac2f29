/* SPDX-License-Identifier: BSD-2-Clause */
/* dgqp.h - a datagram socket's UD QPs, one for each local address that it sends from. */
#ifndef RSOCKET_DGQP_H
#define RSOCKET_DGQP_H

#include "rsocket/dgsock.h"
#include "rsocket/rdma.h"

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

#endif
