/* SPDX-License-Identifier: BSD-2-Clause */
/* resolve.h - finds the route to a peer. The kernel's routes say from which of our
 * addresses it is reached; at an adapter of a fabric the fabric and its subnet manager
 * say, and multicast groups have GIDs of their own. Functions return 0 if an event
 * follows, or -errno. */
#ifndef RDMACM_RESOLVE_H
#define RDMACM_RESOLVE_H

#include <rdma/rdma_cma.h>
#include <stdint.h>

#include "rdmacm/id.h"

/* --- multicast GIDs ------------------------------------------------------ */

/* Sets mgid to the multicast GID for the address a at an adapter. An IP address is mapped
 * as by IP over InfiniBand (RFC 4391, 4), but with the signature of Linux's rdma_cm for
 * RDMA_PS_UDP; a GID stays as it is. */
void cma_mgid(enum rdma_port_space ps, uint16_t pkey, const struct sockaddr *a,
	      uint8_t mgid[16]);

/* --- routes -------------------------------------------------------------- */

int cma_resolve_addr(struct cma_id *id, const struct sockaddr *src,
		     const struct sockaddr *dst);
/* Asks for timeout_ms, if a subnet manager has to be asked. */
int cma_resolve_route(struct cma_id *id, int timeout_ms);
/* Takes the path from the program (struct ibv_path_data[]) instead of a subnet
 * manager. */
int cma_set_path(struct cma_id *id, const void *data, size_t len);
/* Stores the path that the subnet manager answered. Returns 0 or -ENOMEM. */
int cma_take_path(struct cma_id *id, const struct sa_path *p);

#endif
