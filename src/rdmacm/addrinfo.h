/* SPDX-License-Identifier: BSD-2-Clause */
/* addrinfo.h - rdma_getaddrinfo: translates names to addresses, which are IP's or GIDs
 * (AF_IB). */
#ifndef RDMACM_ADDRINFO_H
#define RDMACM_ADDRINFO_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

/* Returns 0 or -errno with *eai false; or an EAI_... value, also negative, with *eai
 * true. */
int cma_getaddrinfo(const char *node, const char *service,
		    const struct rdma_addrinfo *hints, struct rdma_addrinfo **res,
		    bool *eai);
void cma_freeaddrinfo(struct rdma_addrinfo *res);

#endif
