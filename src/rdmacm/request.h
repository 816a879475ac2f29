/* SPDX-License-Identifier: BSD-2-Clause */
/* request.h - a peer's request becomes an id. */
#ifndef RDMACM_REQUEST_H
#define RDMACM_REQUEST_H

#include "rdmacm/id.h"

/* Makes an id of the REQUEST e. The new id, which becomes e->ev.id, owns e's connection
 * from then on. Returns 0 or -errno. */
int cma_id_for_request(struct cma_event *e);

#endif
