/* SPDX-License-Identifier: BSD-2-Clause */
/* qp.h - an id's QP and SRQ, with the CQs that the program does not bring.  0 or
 * -errno. */
#ifndef RDMACM_QP_H
#define RDMACM_QP_H

#include "rdmacm/id.h"

int cma_create_qp(struct cma_id *id, struct ibv_qp_init_attr_ex *attr);
/* pd NULL: the id's. */
int cma_create_qp_of(struct cma_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *init);
/* -EBUSY: it stays the id's, and so do its CQs; call this again later. */
int cma_destroy_qp(struct cma_id *id);
int cma_create_srq(struct cma_id *id, struct ibv_srq_init_attr_ex *attr);
int cma_create_srq_of(struct cma_id *id, struct ibv_pd *pd,
		      struct ibv_srq_init_attr *init);
int cma_destroy_srq(struct cma_id *id); /* likewise */

#endif
