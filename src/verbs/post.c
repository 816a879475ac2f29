/* SPDX-License-Identifier: BSD-2-Clause */
/* post.c - posting lists of work requests (IBTA vol. 1, 10.8, 11.4.1): ibv_post_send()
 * and ibv_post_recv(), which hold qp->lock throughout.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "sys/clock.h"
#include "sys/inside.h"
#include "verbs/await.h"
#include "verbs/complete.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/draft.h"
#include "verbs/event.h"
#include "verbs/qp.h"
#include "verbs/qp_kind.h"
#include "verbs/transport.h"
#include "verbs/wr_op.h"

/* --- ibv_post_send ------------------------------------------------------- */

static void set_remote(struct swqe *w, unsigned traits, const struct ibv_send_wr *wr)
{
	if (traits & WR_IMM)
		w->imm = wr->imm_data; /* or invalidate_rkey */
	if (traits & WR_ATOMIC) {
		w->remote_addr = wr->wr.atomic.remote_addr;
		w->rkey = wr->wr.atomic.rkey;
		w->atomic.compare_add = wr->wr.atomic.compare_add;
		w->atomic.swap = wr->wr.atomic.swap;
	} else if (traits & WR_REMOTE) {
		w->remote_addr = wr->wr.rdma.remote_addr;
		w->rkey = wr->wr.rdma.rkey;
	}
}

static int post_one(struct qp *qp, const struct ibv_send_wr *wr)
{
	const struct wr_op *op = wr_op(wr->opcode);
	int rc = draft_begin(qp, op, wr->opcode, wr->wr_id, wr->send_flags);
	unsigned traits;

	if (rc)
		return rc;
	traits = op->traits;
	set_remote(draft_last(&qp->sq), traits, wr);
	if (traits & WR_BUILT)
		rc = post_refuse(qp, "the opcode can be posted by ibv_wr_*() only");
	else if (wr->num_sge < 0)
		rc = post_refuse(qp, "num_sge is negative");
	else if (traits & WR_VALUE)
		rc = draft_value_sges(qp, (size_t)wr->num_sge, wr->sg_list);
	else if (wr->send_flags & IBV_SEND_INLINE)
		rc = draft_inline_sges(qp, (size_t)wr->num_sge, wr->sg_list);
	else if (traits & (WR_DATA | WR_FEW))
		rc = draft_sges(qp, (size_t)wr->num_sge, wr->sg_list);
	if (!rc && qp->kind->address)
		rc = qp->kind->address(qp, wr);
	if (!rc && traits & WR_BIND)
		rc = draft_bind(qp, wr->bind_mw.mw, wr->bind_mw.rkey,
				&wr->bind_mw.bind_info);
	if (!rc)
		rc = draft_end(qp);
	/* Programs read the window's new key there, as soon as the bind is posted
	 * (irdma). ibv_wr_bind_mw() leaves it alone, as with mlx5 and rxe: its program
	 * has named the key itself, and may still abort. */
	if (!rc && traits & WR_BIND)
		wr->bind_mw.mw->rkey = draft_last(&qp->sq)->imm;
	return rc;
}

/* The common case: an RC SEND with one SGE. Leaves the fields of struct swqe alone that
 * no SEND has. Returns false if the request is for post_one(). */
static inline bool post_plain(struct qp *qp, const struct ibv_send_wr *wr)
	REQUIRES(qp->lock)
{
	struct sq *sq = &qp->sq;
	struct ibv_sge *sge = sq_sges(sq, sq->draft);
	struct swqe *w;

	if (wr->opcode != IBV_WR_SEND || qp->wr_type != IBV_QPT_RC || wr->num_sge != 1 ||
	    !wr->sg_list || !sq->max_sge || wr->send_flags & ~(unsigned)SEND_FLAGS ||
	    sq->draft == sq->room)
		return false;
	*sge = *wr->sg_list;
	if (wr->send_flags & IBV_SEND_INLINE) {
		void *to =
			sq->inl + (size_t)(sq->draft & (sq->size - 1)) * sq->max_inline;

		if (sge->length > sq->max_inline || !sge->length)
			return false;
		memcpy(to, (const void *)(uintptr_t)sge->addr, sge->length);
		sge->addr = (uintptr_t)to;
	} else if (sge->length > caps.max_msg) {
		return false;
	}
	w = sq_at(sq, sq->draft++);
	w->wr_id = wr->wr_id;
	w->length = sge->length;
	w->num_sge = 1;
	w->opcode = IBV_WR_SEND;
	w->flags = post_flags(qp, wr->send_flags);
	w->imm = w->rkey = 0;
	w->remote_addr = 0;
	w->psn = w->npkts = w->done = 0;
	return true;
}

/* *wr: in, the first of the list; out, the refused request. */
static int post_list(struct qp *qp, struct ibv_send_wr **wr) REQUIRES(qp->lock);

__attribute__((noinline)) static int post_list(struct qp *qp, struct ibv_send_wr **wr)
{
	struct sq *sq = &qp->sq;
	uint32_t good;
	int rc = 0;

	post_begin(qp);
	for (good = sq->draft; !rc && *wr;) {
		rc = post_plain(qp, *wr) ? 0 : post_one(qp, *wr);
		if (!rc) {
			*wr = (*wr)->next;
			good++;
		}
	}
	sq->draft = good;
	return rc;
}

/* Posts a list that was not, or not all, executed at once. Gives the lock. */
static int post_rest(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
	RELEASES(qp->lock);

__attribute__((noinline)) static int post_rest(struct qp *qp, struct ibv_send_wr *wr,
					       struct ibv_send_wr **bad)
{
	int rc = wr ? post_may_send(qp) : 0;

	if (!rc && wr)
		rc = post_list(qp, &wr);
	else
		qp->sq.draft = qp->sq.head;
	if (post_commit(qp) && !rc)
		rc = 1;
	lock_give(&qp->lock);
	if (rc < 0 && bad)
		*bad = wr;
	return rc;
}

/* Gives the lock. */
static int refuse_nested(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
	RELEASES(qp->lock);

__attribute__((noinline)) static int refuse_nested(struct qp *qp, struct ibv_send_wr *wr,
						   struct ibv_send_wr **bad)
{
	lock_give(&qp->lock);
	if (bad)
		*bad = wr;
	return -EDEADLK;
}

/* Completes nothing, since the interrupted call may hold cq->lock. */
int qp_post_nested(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int rc;

	if (!inside_take(&qp->lock)) {
		if (bad)
			*bad = wr;
		return -EDEADLK;
	}
	rc = post_may_send(qp);
	if (!rc && (qp->builder.active || qp->state != IBV_QPS_RTS))
		return refuse_nested(qp, wr, bad);
	if (!rc)
		return post_rest(qp, wr, bad);
	lock_give(&qp->lock);
	if (bad)
		*bad = wr;
	return rc;
}

int qp_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	lock_take(&qp->lock);
	if (!post_alone(qp))
		return refuse_nested(qp, wr, bad);
	if (wr && post_may_be_at_once(qp))
		wr = qp->transport->at_once(qp, wr);
	if (wr || qp->sq.tail != qp->sq.head || qp->state != IBV_QPS_RTS)
		return post_rest(qp, wr, bad);
	qp->sq.draft = qp->sq.head;
	lock_give(&qp->lock);
	return 1;
}

/* --- ibv_post_recv ------------------------------------------------------- */

static int recv_one(struct qp *qp, const struct ibv_recv_wr *wr)
{
	int rc = rq_post(&qp->rq, wr);

	if (rc == -EINVAL)
		return wr->num_sge < 0 ? post_refuse(qp, "num_sge is negative")
				       : post_refuse_sges(qp, (size_t)wr->num_sge,
							  "max_recv_sge", qp->rq.max_sge);
	return rc == -ENOMEM ? post_full(qp, "receive", "max_recv_wr", qp->rq.cap) : rc;
}

int qp_post_recv(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	bool called;
	int rc = 0;

	if (!inside_take(&qp->lock)) {
		if (bad)
			*bad = wr;
		return -EDEADLK;
	}
	if (qp->ctx->dead)
		rc = -EIO;
	else if (qp->state == IBV_QPS_ERR && inside_calls > 1)
		rc = -EDEADLK; /* the interrupted call may hold cq->lock */
	else if (qp->srq || !qp_has_receives(qp))
		rc = post_refuse(qp,
				 "the QP's receives come from an SRQ, or it has none");
	else if (qp->state == IBV_QPS_RESET)
		rc = post_refuse(qp, "the QP is in RESET");
	for (; !rc && wr; wr = wr->next) {
		rc = recv_one(qp, wr);
		if (rc)
			break;
	}
	if (qp->state == IBV_QPS_ERR && rc != -EDEADLK)
		qp_flush(qp, clock_ns());
	called = qp->recv.awaited;
	if (called)
		qp_call_awaiting(qp);
	lock_give(&qp->lock);
	if (rc && bad)
		*bad = wr;
	return rc ? rc : called;
}
