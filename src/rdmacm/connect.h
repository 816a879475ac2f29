/* SPDX-License-Identifier: BSD-2-Clause */
/* connect.h - connections: what the program asks for, and how a peer's request becomes
 * an id. */
#ifndef RDMACM_CONNECT_H
#define RDMACM_CONNECT_H

#include "rdmacm/id.h"

enum { CMA_NO_EVENT = 1 };

/* What the program asks for. Each function returns 0 if it is done and an event follows,
 * CMA_NO_EVENT if no event follows, or -errno. */

int cma_listen(struct cma_id *id, int backlog);
int cma_connect(struct cma_id *id, const struct rdma_conn_param *c);
int cma_accept(struct cma_id *id, const struct rdma_conn_param *c);
int cma_reject(struct cma_id *id, uint16_t reason, const void *data, uint8_t len);
int cma_establish(struct cma_id *id);
int cma_notify(struct cma_id *id, enum ibv_event_type event);
int cma_disconnect(struct cma_id *id);
int cma_destroy(struct cma_id *id);

/* --- requests ------------------------------------------------------------ */

/* Makes an id of the REQUEST e. The new id, which becomes e->ev.id, owns e's connection
 * from then on. Returns 0 or -errno. */
int cma_id_for_request(struct cma_event *e);

#endif
