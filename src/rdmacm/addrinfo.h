/* SPDX-License-Identifier: BSD-2-Clause */
/* addrinfo.h - rdma_getaddrinfo and rdma_resolve_addrinfo: translate names to addresses,
 * which are IP's or GIDs (AF_IB). */
#ifndef RDMACM_ADDRINFO_H
#define RDMACM_ADDRINFO_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "rdmacm/id.h"

/* Returns 0 or -errno with *eai false; or an EAI_... value, also negative, with *eai
 * true. */
int cma_getaddrinfo(const char *node, const char *service,
		    const struct rdma_addrinfo *hints, struct rdma_addrinfo **res,
		    bool *eai);
void cma_freeaddrinfo(struct rdma_addrinfo *res);

/* Does the same for id, which keeps the result. ADDRINFO_RESOLVED or ADDRINFO_ERROR
 * follows, whose status is then an EAI_... value or -errno. Returns 0 or -errno:
 * -EOPNOTSUPP: the SA's services are not asked for. */
int cma_resolve_addrinfo(struct cma_id *id, const char *node, const char *service,
			 const struct rdma_addrinfo *hints);
/* Copies id's last result, for cma_freeaddrinfo(). Returns 0, -ENOMEM, or -EINVAL: it has
 * none. */
int cma_query_addrinfo(const struct cma_id *id, struct rdma_addrinfo **out);

#endif
