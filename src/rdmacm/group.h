/* SPDX-License-Identifier: BSD-2-Clause */
/* group.h - multicast groups. RoCE v2 uses IP multicast (annex A17): nobody has to be
 * asked, and the kernel joins when the QP is attached. InfiniBand's groups are made by
 * the subnet's administrator (SA). */
#ifndef RDMACM_GROUP_H
#define RDMACM_GROUP_H

#include "rdmacm/id.h"

/* Joins a group. Returns 0 and an event follows; or -errno. */
int cma_join(struct cma_id *id, const struct sockaddr *addr, bool send_only,
	     void *context);
int cma_join_ex(struct cma_id *id, const struct rdma_cm_join_mc_attr_ex *attr,
		void *context);
/* Completes a JOIN event before the program reads it, and attaches the id's QP. */
void cma_group_joined(struct cma_event *e);
int cma_leave(struct cma_id *id, const struct sockaddr *addr);
void cma_leave_all(struct cma_id *id);

#endif
