/* SPDX-License-Identifier: BSD-2-Clause */
/* opened.h - handles of target QPs of XRC that were opened by their number
 * (ibv_open_qp).  The QP is this process's or another's: what is wanted of it is said to
 * its process, which answers (shared.h).
 */
#ifndef CORE_OPENED_H
#define CORE_OPENED_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "core/core.h"

struct context;
struct qp;
struct share_msg;

/* attr->xrcd is ctx's.  -EINVAL: no target QP of the domain has that number, or what a
 * handle needs is missing; -EOPNOTSUPP: comp_mask; -ENOMEM; -EIO; -ETIMEDOUT: its process
 * does not answer. */
int opened_open(struct context *ctx, const struct ibv_qp_open_attr *attr,
		struct qp **out);
/* As qp_modify() and qp_query() have it; -EIO: the QP has ended with its process (its
 * state is ERR then); -ETIMEDOUT. */
int opened_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask);
int opened_query(struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);
/* Waits until its events are acknowledged. */
void opened_destroy(struct qp *qp);

/* --- for share.c --- */
void opened_answered(struct core *core, uint16_t slot, const struct share_msg *m)
	REQUIRES(core->turn);
void opened_told(struct core *core, uint16_t slot, const struct share_msg *m)
	REQUIRES(core->turn);
void opened_gone(struct core *core, uint16_t slot) REQUIRES(core->turn);
void opened_again(struct core *core) REQUIRES(core->turn);
void opened_close_all(struct core *core);

#endif
