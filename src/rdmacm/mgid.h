/* SPDX-License-Identifier: BSD-2-Clause */
/* mgid.h - the multicast GID for an address at an adapter. An IP address is mapped as by
 * IP over InfiniBand (RFC 4391, 4), but with the signature of Linux's rdma_cm for
 * RDMA_PS_UDP; a GID stays as it is. */
#ifndef RDMACM_MGID_H
#define RDMACM_MGID_H

#include <rdma/rdma_cma.h>
#include <stdint.h>

void cma_mgid(enum rdma_port_space ps, uint16_t pkey, const struct sockaddr *a,
	      uint8_t mgid[16]);

#endif
