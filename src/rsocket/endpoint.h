/* SPDX-License-Identifier: BSD-2-Clause */
/* endpoint.h - a connection's QP with its completion queues and buffers, and the stream
 * that runs over it. Receives and sends complete on two CQs, so that a reader is not
 * woken by its own sends. */
#ifndef RSOCKET_ENDPOINT_H
#define RSOCKET_ENDPOINT_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "rsocket/defaults.h"
#include "rsocket/stream.h"

/* Registered memory. */
struct rsock_region {
	uint8_t *at;
	size_t size;
	struct ibv_mr *mr;
};

struct rsock_endpoint {
	struct rdma_cm_id *id; /* NULL: there is no endpoint */
	struct ibv_comp_channel *ch;
	struct ibv_cq *rcq, *scq;
	bool armed_r, armed_s;
	bool by_send; /* iWARP: a SEND instead of an immediate */
	int receives; /* number of receives that are always posted */
	struct rsock_region rbuf, sbuf, shared;
	struct rsock_region messages; /* if by_send: a place for each receive's message */
	struct rs_stream s;
};

/* Makes the endpoint for an id that has a device. Returns 0 or -errno; also after an
 * error rsock_ep_destroy() is needed. */
int rsock_ep_create(struct rsock_endpoint *ep, struct rdma_cm_id *id,
		    const struct rsock_sizes *sizes);
void rsock_ep_destroy(struct rsock_endpoint *ep);

/* Posts w. payload, unless NULL, goes inline instead of w->from. Returns 0 or -errno. */
int rsock_ep_post(struct rsock_endpoint *ep, const struct rs_write *w,
		  const void *payload);
/* Handles completed receives and posts them again. came() is called for each, with its
 * immediate, or with good false if it is no message of rsockets. Sets *status if a
 * receive failed. Returns how many there were. */
int rsock_ep_take_receives(struct rsock_endpoint *ep, enum ibv_wc_status *status,
			   void (*came)(void *arg, bool good, uint32_t imm), void *arg);
/* Handles completed sends. Sets *status if one failed: the first status that is not a
 * flush. Returns how many there were. */
int rsock_ep_take_sends(struct rsock_endpoint *ep, enum ibv_wc_status *status);

/* Asks for an event at the next completion; the caller has to look once more afterwards.
 * for_space: also at completed sends, which free space. */
void rsock_ep_arm(struct rsock_endpoint *ep, bool for_space);
bool rsock_ep_take_events(struct rsock_endpoint *ep); /* returns true if there were any */

#endif
