/* SPDX-License-Identifier: BSD-2-Clause */
/* qp_state.h - an id's QP goes through its states as the connection comes about.  0 or
 * -errno. */
#ifndef RDMACM_QP_STATE_H
#define RDMACM_QP_STATE_H

#include "rdmacm/id.h"

void cma_fill_ah(struct cma_id *id, const uint8_t dst[16], struct ibv_ah_attr *ah);
/* What a->qp_state asks for, as id's connection has it. */
int cma_qp_attr(struct cma_id *id, struct ibv_qp_attr *a, int *mask);
/* A new one: to INIT, a datagram QP to RTS. */
int cma_qp_start(struct cma_id *id, struct ibv_qp *qp);
int cma_qp_connect(struct cma_id *id); /* to RTR, then RTS */
/* iWARP: what the peer may do is known now, and the connection does the rest. */
int cma_qp_prepare(struct cma_id *id);
void cma_qp_error(struct cma_id *id);

#endif
