/* SPDX-License-Identifier: BSD-2-Clause */
/* cma_event.h - turns what the CM reports into the events that the program reads. The
 * reader's thread also moves the QP through its states (docs/dev/cm.md). */
#ifndef RDMACM_CMA_EVENT_H
#define RDMACM_CMA_EVENT_H

#include "rdmacm/id.h"

/* Appends an event of the program's own, with arg as its parameter. Returns 0, -ENOMEM,
 * or -EINVAL: programs may only write RDMA_CM_EVENT_USER. */
int cma_write_event(struct cma_id *id, enum rdma_cm_event_type type, int status,
		    uint64_t arg);
/* Waits for the next event that the program is to read. Returns 0 or -errno. */
int cma_get_event(struct cma_channel *ch, struct cma_event **out);
/* Finishes a call that returned rc and is followed by an event: for a synchronous id it
 * waits for the next event, which is id->event then. `awaited` is the event that says
 * that the call succeeded (ESTABLISHED stands for CONNECT_RESPONSE, too). Returns 0, the
 * -errno that the event tells, or -EINVAL for any other event without an error: the call
 * has no result yet. */
int cma_complete(struct cma_id *id, int rc, enum rdma_cm_event_type awaited);

#endif
