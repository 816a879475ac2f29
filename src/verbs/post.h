/* SPDX-License-Identifier: BSD-2-Clause */
/* post.h - building work requests piece by piece, as ibv_wr_*() does.
 *
 *	post_start(qp);				other posts to qp wait from here on
 *	w = post_draft(qp, IBV_WR_RDMA_WRITE);	wr_id and flags from qp->ex
 *	if (w) { w->rkey = ...; w->remote_addr = ...; }
 *	post_sge(qp, lkey, addr, length);	adds to the latest draft
 *	...
 *	rc = post_complete(qp);			posts all drafts, or none
 *
 * No lock is held in between: completions, input, modify and destroy go on. If the QP
 * has left the states that send, all drafts are refused. An error is kept until
 * post_complete(), which returns it. The caller then makes the QP due. ibv_post_send()
 * goes the same way: verbs/qp.h.
 */
#ifndef VERBS_POST_H
#define VERBS_POST_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qp;
struct swqe;

void post_start(struct qp *qp);
int post_complete(struct qp *qp); /* 0; 1: executed already; -EINVAL, -ENOMEM, -EIO */
bool post_abort(struct qp *qp);	  /* true: make the QP due for its own requests */

/* Starts a draft and returns it zeroed; the caller sets imm, rkey, remote_addr and
 * atomic. Returns NULL if it is refused, which refuses the whole batch. */
struct swqe *post_draft(struct qp *qp, enum ibv_wr_opcode opcode);

void post_sge(struct qp *qp, uint32_t lkey, uint64_t addr, uint32_t length);
void post_sge_list(struct qp *qp, size_t n, const struct ibv_sge *list);
void post_inline(struct qp *qp, const void *addr, size_t length);
void post_inline_list(struct qp *qp, size_t n, const struct ibv_data_buf *list);
void post_value(struct qp *qp, const void *value); /* 8 bytes: atomic write */
/* len: bytes of a range, not looked at for a whole region (verbs/flush.h). */
void post_flush(struct qp *qp, size_t len, uint8_t type, uint8_t level);
void post_ud(struct qp *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey);
/* post_bind(): rkey is the window's new rkey. */
void post_srqn(struct qp *qp, uint32_t srqn);
void post_bind(struct qp *qp, struct ibv_mw *mw, uint32_t rkey,
	       const struct ibv_mw_bind_info *info);

#endif
