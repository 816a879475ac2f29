/* SPDX-License-Identifier: BSD-2-Clause */
/* event.h - what the CM tells, and what the program reads of it, which is where QPs
 * follow (docs/cm.md). */
#ifndef RDMACM_EVENT_H
#define RDMACM_EVENT_H

#include "rdmacm/id.h"

/* The next event that the program is to read: 0 or -errno. */
int cma_get_event(struct cma_channel *ch, struct cma_event **out);
/* A call that an event follows came to rc: a synchronous id waits for the event and
 * says what it says.  0 or -errno. */
int cma_complete(struct cma_id *id, int rc);
const char *cma_event_name(enum rdma_cm_event_type event);

#endif
