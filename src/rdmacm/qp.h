/* SPDX-License-Identifier: BSD-2-Clause */
/* qp.h - makes and destroys an id's QP and SRQ, and the CQs that the program does not
 * supply. Functions return 0 or -errno. */
#ifndef RDMACM_QP_H
#define RDMACM_QP_H

#include "rdmacm/id.h"

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
