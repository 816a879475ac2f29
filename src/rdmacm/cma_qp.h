/* SPDX-License-Identifier: BSD-2-Clause */
/* cma_qp.h - the QP of an id, its attributes and transitions; the id's SRQ, and the
 * CQs that the program does not supply. Functions return 0 or -errno. */
#ifndef RDMACM_CMA_QP_H
#define RDMACM_CMA_QP_H

#include "rdmacm/id.h"

/* --- attributes and transitions ------------------------------------------ */

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

/* --- QPs, SRQs and CQs --------------------------------------------------- */

int cma_create_qp(struct cma_id *id, struct ibv_qp_init_attr_ex *attr);
/* pd NULL: the id's PD. */
int cma_create_qp_of(struct cma_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *init);
/* -EBUSY: the QP and its CQs stay the id's; to be called again later. */
int cma_destroy_qp(struct cma_id *id);
int cma_create_srq(struct cma_id *id, struct ibv_srq_init_attr_ex *attr);
int cma_create_srq_of(struct cma_id *id, struct ibv_pd *pd,
		      struct ibv_srq_init_attr *init);
int cma_destroy_srq(struct cma_id *id); /* as cma_destroy_qp() */

#endif
