/* SPDX-License-Identifier: BSD-2-Clause */
/* mgid.h - the multicast GID that stands for an address at an adapter: as IP over
 * InfiniBand maps them (RFC 4391, 4), with the signature that Linux' rdma_cm gives
 * groups of RDMA_PS_UDP; a GID is itself. */
#ifndef RDMACM_MGID_H
#define RDMACM_MGID_H

#include <rdma/rdma_cma.h>
#include <stdint.h>

void cma_mgid(enum rdma_port_space ps, uint16_t pkey, const struct sockaddr *a,
	      uint8_t mgid[16]);

#endif
