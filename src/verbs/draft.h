/* SPDX-License-Identifier: BSD-2-Clause */
/* draft.h - the steps of posting a send request, for verbs/post.c and
 * verbs/post_build.c.
 *
 * A request under construction is a draft: it lies past sq.head, where no transport
 * looks. It is built by draft_begin(), the steps that its opcode needs, and
 * draft_end().
 */
#ifndef VERBS_DRAFT_H
#define VERBS_DRAFT_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs/qp.h"
#include "verbs/transport.h"

struct wr_op;

enum {
	SEND_FLAGS =
		IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE,
};

/* Log why a request is refused and return -EINVAL (post_refuse) or -ENOMEM
 * (post_full). */
int post_refuse(const struct qp *qp, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* What is wrong with a list of n SGEs of which a queue takes max (as `limit` says). */
int post_refuse_sges(const struct qp *qp, size_t n, const char *limit, uint32_t max);
int post_full(const struct qp *qp, const char *which, const char *limit, uint32_t places);

/* May sends be posted? 0, -EINVAL in a state that takes none, -EIO. */
int post_may_send(const struct qp *qp) REQUIRES(qp->lock);
/* Waits until no other thread builds requests for this QP. Returns false if this one
 * does: then the caller is a signal handler. */
bool post_wait(struct qp *qp) REQUIRES(qp->lock);
/* Makes the caller the only poster. Returns false if that is not possible. */
static inline bool post_alone(struct qp *qp) REQUIRES(qp->lock)
{
	return !qp->builder.active || post_wait(qp);
}
/* Returns the index at which drafts must end. It is never before sq.draft, since the
 * QP's own requests (verbs/srq_hooks.h) also occupy the queue. */
static inline uint32_t post_room(const struct qp *qp) REQUIRES(qp->lock)
{
	uint32_t room = sq_end(&qp->sq);

	return qp->hooks && (int32_t)(room - qp->sq.draft) < 0 ? qp->sq.draft : room;
}
/* Starts a batch of drafts, which may reach up to sq->room. */
static inline void post_begin(struct qp *qp) REQUIRES(qp->lock)
{
	qp->sq.draft = qp->sq.head;
	qp->sq.room = post_room(qp);
}
/* Posts the drafts; in ERR or SQE they are flushed at once. Returns true if nothing is
 * left for the engine to do. */
bool post_commit(struct qp *qp) REQUIRES(qp->lock);

/* A request's flags in the send queue. */
static inline uint8_t post_flags(const struct qp *qp, unsigned flags)
{
	return (uint8_t)(flags | (qp->sig_all ? IBV_SEND_SIGNALED : 0));
}
/* Fills w but for its payload. remote: wr names memory of the peer. */
static inline void post_take_over(const struct qp *qp, struct swqe *w,
				  const struct ibv_send_wr *wr, bool remote)
{
	w->wr_id = wr->wr_id;
	w->opcode = (uint8_t)wr->opcode;
	w->flags = post_flags(qp, wr->send_flags);
	w->imm = wr->imm_data;
	if (remote) {
		w->remote_addr = wr->wr.rdma.remote_addr;
		w->rkey = wr->wr.rdma.rkey;
	}
}

/* --- the steps: 0, -EINVAL or -ENOMEM; each concerns the last draft --------- */

/* Starts a draft. op: the row of opcode in the wr_op table, or NULL. */
int draft_begin(struct qp *qp, const struct wr_op *op, unsigned opcode, uint64_t wr_id,
		unsigned flags);
int draft_sges(struct qp *qp, size_t n, const struct ibv_sge *list);
/* Makes the payload inline: one SGE in urnic's own memory, whose lkey is not checked. */
int draft_inline(struct qp *qp);
int draft_add_inline(struct qp *qp, const void *from, size_t n);
int draft_inline_sges(struct qp *qp, size_t n, const struct ibv_sge *list);
/* len: bytes of a range, ignored for a whole region (verbs/flush.h). */
int draft_flush(struct qp *qp, size_t len, uint8_t type, uint8_t level);
/* Set the payload of an atomic write to the 8 bytes at value, or to the contents of
 * the SGEs, whose lkeys are not checked. */
void draft_value(struct qp *qp, const void *value);
int draft_value_sges(struct qp *qp, size_t n, const struct ibv_sge *list);
int draft_ud(struct qp *qp, struct ibv_ah *ibv, uint32_t qpn, uint32_t qkey);
int draft_to_srq(struct qp *qp, uint32_t srqn);
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
	return atomic_load_explicit(&qp->tp.at_once, memory_order_relaxed) &&
	       qp->state == IBV_QPS_RTS;
}

/* Returns the bytes of a request for at_once(). 0: it has none, or ibv_post_send() may
 * refuse it. */
uint32_t post_bytes(const struct qp *qp, const struct ibv_send_wr *wr);

/* Has it one SGE, no inline data, and no unknown flag? */
static inline bool post_is_simple(const struct ibv_send_wr *wr)
{
	const unsigned flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;

	return wr->num_sge == 1 && !(wr->send_flags & ~flags) && wr->sg_list;
}

#endif
