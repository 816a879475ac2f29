/* SPDX-License-Identifier: BSD-2-Clause */
/* qp_state.h - moves an id's QP through its states as the connection is made. Functions
 * return 0 or -errno. */
#ifndef RDMACM_QP_STATE_H
#define RDMACM_QP_STATE_H

#include "rdmacm/id.h"

void cma_fill_ah(struct cma_id *id, const uint8_t dst[16], struct ibv_ah_attr *ah);
/* Sets *a and *mask to the attributes that take a QP of id's connection to
 * a->qp_state. */
int cma_qp_attr(struct cma_id *id, struct ibv_qp_attr *a, int *mask);
/* Takes a new QP to INIT, a datagram QP to RTS. */
int cma_qp_start(struct cma_id *id, struct ibv_qp *qp);
int cma_qp_connect(struct cma_id *id); /* takes the QP to RTR, then to RTS */
/* iWARP: sets the access flags in INIT; the connection does the rest of the way. */
int cma_qp_prepare(struct cma_id *id);
void cma_qp_error(struct cma_id *id);

#endif
