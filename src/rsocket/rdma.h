/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma.h - the three things that rsockets need of this librdmacm and that
 * <rdma/rdma_cma.h> does not offer.  abi/rsocket.c provides them, and a fake does
 * in unit tests; for everything else rsockets are a program over verbs. */
#ifndef RSOCKET_RDMA_H
#define RSOCKET_RDMA_H

#include <rdma/rdma_cma.h>
#include <stdint.h>

/* Where datagrams of one of this host's addresses go out. */
struct rsock_port {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	uint8_t sgid_index;
	uint32_t mtu; /* bytes */
};

/* From here on no event of id moves its QP, which can be destroyed. */
void rsock_rdma_stop(struct rdma_cm_id *id);
/* The address of this host that the kernel's routes choose for `to`.  *from: what
 * of it is chosen already.  0 or -errno. */
int rsock_rdma_source(const struct sockaddr *to, struct sockaddr_storage *from);
/* The RoCE device with this address (of interface ifindex, if not 0).  0 or
 * -errno. */
int rsock_rdma_port(const uint8_t ip[16], uint32_t ifindex, struct rsock_port *out);

#endif
