/* SPDX-License-Identifier: BSD-2-Clause */
/* opened.h - handles of XRC target QPs that were opened by number (ibv_open_qp). The
 * QP belongs to this process or to another one: each operation on a handle is a
 * message to the QP's process, which answers (shared.h).
 */
#ifndef VERBS_OPENED_H
#define VERBS_OPENED_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "verbs/core.h"

struct context;
struct qp;
struct share_msg;

/* Opens a handle; attr->xrcd belongs to ctx. Returns 0; -EINVAL: no target QP of the
 * domain has that number, or attr lacks a field; -EOPNOTSUPP: comp_mask; -ENOMEM;
 * -EIO; -ETIMEDOUT: the QP's process does not answer. */
int opened_open(struct context *ctx, const struct ibv_qp_open_attr *attr,
		struct qp **out);
/* As qp_modify() and qp_query(), and also -EIO if the QP ended with its process (its
 * state is then ERR), -ETIMEDOUT if the process does not answer. */
int opened_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask);
int opened_query(struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);
/* Destroys the handle; waits until its events are acknowledged. */
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
