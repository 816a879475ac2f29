/* SPDX-License-Identifier: BSD-2-Clause */
/* group.h - multicast groups.  RoCE v2's are those of IP (annex A17): there is nobody
 * to ask, and the kernel joins when the QP is attached.  InfiniBand's are made by the
 * subnet's administrator. */
#ifndef RDMACM_GROUP_H
#define RDMACM_GROUP_H

#include "rdmacm/id.h"

/* 0: an event follows; or -errno. */
int cma_join(struct cma_id *id, const struct sockaddr *addr, bool send_only,
	     void *context);
int cma_join_ex(struct cma_id *id, const struct rdma_cm_join_mc_attr_ex *attr,
		void *context);
/* The program is about to read that it has joined. */
void cma_group_joined(struct cma_event *e);
int cma_leave(struct cma_id *id, const struct sockaddr *addr);
void cma_leave_all(struct cma_id *id);

#endif
