/* SPDX-License-Identifier: BSD-2-Clause */
/* resolve.h - the route to a peer: the kernel's routes say by which of our addresses it
 * is reached.  0: an event follows; or -errno. */
#ifndef RDMACM_RESOLVE_H
#define RDMACM_RESOLVE_H

#include "rdmacm/id.h"

int cma_resolve_addr(struct cma_id *id, const struct sockaddr *src,
		     const struct sockaddr *dst);
int cma_resolve_route(struct cma_id *id);

#endif
