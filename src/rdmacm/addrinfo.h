/* SPDX-License-Identifier: BSD-2-Clause */
/* addrinfo.h - names become addresses: IP's, or GIDs (AF_IB). */
#ifndef RDMACM_ADDRINFO_H
#define RDMACM_ADDRINFO_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

/* Also EAI_..., which are negative, too: *eai is true then. */
int cma_getaddrinfo(const char *node, const char *service,
		    const struct rdma_addrinfo *hints, struct rdma_addrinfo **res,
		    bool *eai);
void cma_freeaddrinfo(struct rdma_addrinfo *res);

#endif
