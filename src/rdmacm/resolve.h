/* SPDX-License-Identifier: BSD-2-Clause */
/* resolve.h - the route to a peer: the kernel's routes say by which of our addresses it
 * is reached; at an adapter of a fabric, the fabric and its subnet manager.  0: an event
 * follows; or -errno. */
#ifndef RDMACM_RESOLVE_H
#define RDMACM_RESOLVE_H

#include "rdmacm/id.h"

int cma_resolve_addr(struct cma_id *id, const struct sockaddr *src,
		     const struct sockaddr *dst);
/* The subnet manager is asked for so long. */
int cma_resolve_route(struct cma_id *id, int timeout_ms);
/* struct ibv_path_data[], from the program, in the place of a subnet manager. */
int cma_set_path(struct cma_id *id, const void *data, size_t len);
/* It has answered.  0 or -ENOMEM. */
int cma_take_path(struct cma_id *id, const struct sa_path *p);

#endif
