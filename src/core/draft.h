/* SPDX-License-Identifier: BSD-2-Clause */
/* draft.h - the steps of posting a send request, for core/post.c and core/post_build.c.
 *
 * A request is a draft, past sq.head where no transport looks, until it is
 * complete: draft_begin(), what it needs of the others, draft_end().
 */
#ifndef CORE_DRAFT_H
#define CORE_DRAFT_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/qp.h"
#include "core/transport.h"

struct wr_op;

enum {
	SEND_FLAGS =
		IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE,
	/* Bytes that a call does at once: the engine waits for qp->lock meanwhile. */
	POST_AT_ONCE = 256 << 10,
};

/* -EINVAL, -ENOMEM, with a line in the log. */
int post_refuse(const struct qp *qp, const char *why);
int post_full(const struct qp *qp, const char *which);

/* 0; -EINVAL: not in this state; -EIO. */
int post_may_send(const struct qp *qp) REQUIRES(qp->lock);
/* Until no other thread builds requests for this QP. */
void post_wait(struct qp *qp) REQUIRES(qp->lock);
/* The caller is the one poster then. */
static inline void post_alone(struct qp *qp) REQUIRES(qp->lock)
{
	if (qp->building)
		post_wait(qp);
}
/* Where drafts end: not before what there is, since requests of the QP's own count. */
static inline uint32_t post_room(const struct qp *qp) REQUIRES(qp->lock)
{
	uint32_t room = qp->sq.tail + qp->sq.cap;

	return qp->tm && (int32_t)(room - qp->sq.draft) < 0 ? qp->sq.draft : room;
}
/* What follows are drafts, which may go up to sq->room. */
static inline void post_begin(struct qp *qp) REQUIRES(qp->lock)
{
	qp->sq.draft = qp->sq.head;
	qp->sq.room = post_room(qp);
}
/* The drafts are posted.  What was posted in ERR or SQE is flushed at once.  True: there
 * is nothing for the engine to do. */
bool post_commit(struct qp *qp) REQUIRES(qp->lock);

/* --- the steps: 0, -EINVAL or -ENOMEM; each concerns the last draft --------- */

/* op: opcode's row, or NULL. */
int draft_begin(struct qp *qp, const struct wr_op *op, unsigned opcode, uint64_t wr_id,
		unsigned flags);
int draft_sges(struct qp *qp, size_t n, const struct ibv_sge *list);
/* The payload becomes one SGE: ours, so its lkey does not count. */
int draft_inline(struct qp *qp);
int draft_add_inline(struct qp *qp, const void *from, size_t n);
int draft_inline_sges(struct qp *qp, size_t n, const struct ibv_sge *list);
/* The payload is the 8 bytes at value, or in these SGEs, whose lkeys do not count. */
int draft_flush(struct qp *qp, size_t len, uint8_t type, uint8_t level);
void draft_value(struct qp *qp, const void *value);
int draft_value_sges(struct qp *qp, size_t n, const struct ibv_sge *list);
int draft_ud(struct qp *qp, struct ibv_ah *ibv, uint32_t qpn, uint32_t qkey);
int draft_srqn(struct qp *qp, uint32_t srqn);
int draft_bind(struct qp *qp, struct ibv_mw *mw, uint32_t rkey,
	       const struct ibv_mw_bind_info *info);
int draft_end(struct qp *qp);

static inline struct swqe *draft_last(struct sq *sq)
{
	return sq_at(sq, sq->draft - 1);
}

/* --- at once ------------------------------------------------------------- */

static inline bool post_may_be_at_once(const struct qp *qp) REQUIRES(qp->lock)
{
	return atomic_load_explicit(&qp->at_once, memory_order_relaxed) &&
	       qp->state == IBV_QPS_RTS;
}

/* The oldest draft is posted and done now, if nothing that was posted before it waits.
 * False: it is a draft still; or, outside ibv_wr_*, it has been overwritten by a request
 * of the QP's own, behind which it is to be built again. */
static inline bool draft_at_once(struct qp *qp, const struct ibv_sge *sge)
	REQUIRES(qp->lock)
{
	return qp->transport->at_once(qp, sq_at(&qp->sq, qp->sq.head), sge);
}

#endif
