/* SPDX-License-Identifier: BSD-2-Clause */
/* endpoint.h - a connection's QP with its completion queues and buffers, and the
 * stream that runs over it.  Reader's and sender's completions are on two CQs: a
 * reader is not woken by what it has sent itself. */
#ifndef RSOCKET_ENDPOINT_H
#define RSOCKET_ENDPOINT_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "rsocket/defaults.h"
#include "rsocket/stream.h"

/* Memory that is registered. */
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
	int receives; /* posted at any time */
	struct rsock_region rbuf, sbuf, shared;
	struct rsock_region messages; /* by_send: a place for each receive */
	struct rs_stream s;
};

/* Makes it for an id that has a device.  0 or -errno: what was made is
 * destroyed by rsock_ep_destroy(). */
int rsock_ep_create(struct rsock_endpoint *ep, struct rdma_cm_id *id,
		    const struct rsock_sizes *sizes);
void rsock_ep_destroy(struct rsock_endpoint *ep);

/* Posts w; payload is what goes inline instead of w->from.  0 or -errno. */
int rsock_ep_post(struct rsock_endpoint *ep, const struct rs_write *w,
		  const void *payload);
/* Takes in the receives that have completed, and posts them again: came() has the
 * immediate of each, or it is told that there was none (good is false).  *status:
 * of a receive that failed.  How many there were. */
int rsock_ep_take_receives(struct rsock_endpoint *ep, enum ibv_wc_status *status,
			   void (*came)(void *arg, bool good, uint32_t imm), void *arg);
/* The like of what was posted.  *status: of the first that failed. */
int rsock_ep_take_sends(struct rsock_endpoint *ep, enum ibv_wc_status *status);

/* Asks for an event when something completes; look once more afterwards.  Space
 * comes with what was sent. */
void rsock_ep_arm(struct rsock_endpoint *ep, bool for_space);
bool rsock_ep_take_events(struct rsock_endpoint *ep); /* true: there were some */

#endif
