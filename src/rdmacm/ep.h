/* SPDX-License-Identifier: BSD-2-Clause */
/* ep.h - endpoints: an id, its addresses and its QP, made in one call. Functions return 0
 * or -errno. */
#ifndef RDMACM_EP_H
#define RDMACM_EP_H

#include "rdmacm/id.h"

int cma_create_ep(const struct rdma_addrinfo *res, struct ibv_pd *pd,
		  struct ibv_qp_init_attr *init, struct cma_id **out);
/* Destroys id in any case. -EBUSY: its QP or its SRQ stays. */
int cma_destroy_ep(struct cma_id *id);
/* Waits for the next request of a listener that has no channel. */
int cma_get_request(struct cma_id *listener, struct cma_id **out);

#endif
