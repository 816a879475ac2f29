/* SPDX-License-Identifier: BSD-2-Clause */
/* request.h - a peer's request becomes an id. */
#ifndef RDMACM_REQUEST_H
#define RDMACM_REQUEST_H

#include "rdmacm/id.h"

/* e: a REQUEST, whose connection the new id has from here on; e->ev.id is it.  0 or
 * -errno. */
int cma_id_for_request(struct cma_event *e);

#endif
