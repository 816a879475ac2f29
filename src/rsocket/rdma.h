/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma.h - three functions of this librdmacm that <rdma/rdma_cma.h> does not offer.
 * abi/rsocket.c provides them (in unit tests a fake); for all else rsockets are an
 * ordinary program over verbs and rdma_cm. */
#ifndef RSOCKET_RDMA_H
#define RSOCKET_RDMA_H

#include <rdma/rdma_cma.h>
#include <stdint.h>

/* The device port by which datagrams from one of this host's addresses go out. */
struct rsock_port {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	uint8_t sgid_index;
	uint8_t gid[16]; /* the address, or what stands for loopback's */
	uint32_t mtu;	 /* bytes */
};

/* After this call no event of id moves its QP any more, so the QP can be destroyed. */
void rsock_rdma_stop(struct rdma_cm_id *id);
/* Completes *from with the local address that the kernel's routes choose for `to`; a part
 * that is set stays. Returns 0 or -errno. */
int rsock_rdma_source(const struct sockaddr *to, struct sockaddr_storage *from);
/* Finds the RoCE device with this address, or for loopback's (on interface ifindex,
 * unless that is 0). Returns 0 or -errno. */
int rsock_rdma_port(const uint8_t ip[16], uint32_t ifindex, struct rsock_port *out);

#endif
