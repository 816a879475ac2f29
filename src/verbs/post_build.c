/* SPDX-License-Identifier: BSD-2-Clause */
/* post_build.c - see post.h.
 *
 * From post_start() to post_complete() the program's own code runs for any length of
 * time, so qp->lock is free meanwhile: the engine and control calls go on, and other
 * posters see `building` and wait. Without the lock a builder touches only what
 * posters alone use (draft, room, wr_err, the ring past head) and what never changes.
 */
#include "verbs/post.h"

#include <errno.h>

#include "sys/inside.h"
#include "verbs/core.h"
#include "verbs/draft.h"
#include "verbs/event.h"
#include "verbs/qp.h"
#include "verbs/srq_hooks.h"
#include "verbs/wr_op.h"

static void keep_error(struct qp *qp, int rc)
{
	if (!qp->builder.err)
		qp->builder.err = rc;
}

/* Is there a draft to change? If not, keeps the error. */
static bool open_draft(struct qp *qp)
{
	if (!qp->builder.err && qp->sq.draft == qp->sq.head)
		keep_error(
			qp,
			post_refuse(qp,
				    "a setter (ibv_wr_set_...) was called before a work "
				    "request was begun"));
	return !qp->builder.err;
}

static void end_open(struct qp *qp)
{
	if (!qp->builder.err && qp->sq.draft != qp->sq.head)
		keep_error(qp, draft_end(qp));
}

void post_start(struct qp *qp)
{
	lock_take(&qp->lock);
	if (post_alone(qp)) {
		post_begin(qp);
		qp->builder.active = true;
		qp->builder.thread = &inside_calls;
		qp->builder.err = 0;
	} else {
		/* A signal handler begins in the middle of its own thread's building:
		 * both end with the error. */
		qp->builder.err = -EDEADLK;
	}
	lock_give(&qp->lock);
}

/* Ends building. True: the QP's own requests, which waited for this, are now due. */
static bool end_building(struct qp *qp) REQUIRES(qp->lock)
{
	qp->builder.active = false;
	if (qp->builder.waiters)
		lock_changed(&qp->builder.done);
	return qp->hooks && qp->hooks->built(qp);
}

/* The draft as its program would give it to ibv_post_send(). */
static struct ibv_send_wr as_posted(struct swqe *w, struct ibv_sge *sges)
{
	struct ibv_send_wr wr = {
		.wr_id = w->wr_id,
		.sg_list = sges,
		.num_sge = w->num_sge,
		.opcode = w->opcode,
		.send_flags = w->flags,
	};

	if (wr_op(w->opcode)->traits & WR_ATOMIC) {
		wr.wr.atomic.remote_addr = w->remote_addr;
		wr.wr.atomic.rkey = w->rkey;
		wr.wr.atomic.compare_add = w->atomic.compare_add;
		wr.wr.atomic.swap = w->atomic.swap;
	} else {
		wr.wr.rdma.remote_addr = w->remote_addr;
		wr.wr.rdma.rkey = w->rkey;
	}
	return wr;
}

/* Executes the drafts at once, as far as possible. */
static void drafts_at_once(struct qp *qp) REQUIRES(qp->lock)
{
	struct sq *sq = &qp->sq;

	for (uint64_t did = 0; sq->head != sq->draft && did < POST_AT_ONCE;) {
		struct swqe *w = sq_at(sq, sq->head);
		struct ibv_send_wr wr = as_posted(w, sq_sges(sq, sq->head));

		if (!post_may_be_at_once(qp) || qp->transport->at_once(qp, &wr))
			return;
		did += w->length;
	}
}

int post_complete(struct qp *qp)
{
	bool idle = false;
	int rc;

	end_open(qp);
	lock_take(&qp->lock);
	rc = qp->builder.err;
	if (!rc && qp->sq.draft != qp->sq.head)
		rc = post_may_send(qp);
	if (rc)
		qp->sq.draft = qp->sq.head;
	else
		drafts_at_once(qp);
	if (!rc)
		idle = post_commit(qp);
	if (end_building(qp))
		idle = false;
	lock_give(&qp->lock);
	return rc ? rc : idle;
}

bool post_abort(struct qp *qp)
{
	bool due;

	lock_take(&qp->lock);
	qp->sq.draft = qp->sq.head;
	due = end_building(qp);
	lock_give(&qp->lock);
	return due;
}

/* Recomputes the room: work may have completed since post_start(). (Not in a forked
 * child, whose copy of the lock may never be given.) */
static void look_for_room(struct qp *qp)
{
	if (qp->builder.err || qp->ctx->dead)
		return;
	lock_take(&qp->lock);
	qp->sq.room = post_room(qp);
	lock_give(&qp->lock);
}

struct swqe *post_draft(struct qp *qp, enum ibv_wr_opcode opcode)
{
	const struct wr_op *op = wr_op(opcode);

	end_open(qp);
	if (!qp->builder.err && op && !(op->send_op & qp->send_ops))
		keep_error(
			qp,
			post_refuse(qp,
				    "the operation is not in the QP's send_ops_flags"));
	if (qp->sq.draft == qp->sq.room)
		look_for_room(qp);
	if (!qp->builder.err)
		keep_error(qp, draft_begin(qp, op, opcode, qp->ex.wr_id,
					   qp->ex.wr_flags & ~(unsigned)IBV_SEND_INLINE));
	return qp->builder.err ? NULL : draft_last(&qp->sq);
}

void post_sge(struct qp *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	post_sge_list(qp, 1, &sge);
}

void post_sge_list(struct qp *qp, size_t n, const struct ibv_sge *list)
{
	if (open_draft(qp))
		keep_error(qp, draft_sges(qp, n, list));
}

void post_inline(struct qp *qp, const void *addr, size_t length)
{
	struct ibv_data_buf buf = { .addr = (void *)(uintptr_t)addr, .length = length };

	post_inline_list(qp, 1, &buf);
}

void post_inline_list(struct qp *qp, size_t n, const struct ibv_data_buf *list)
{
	if (!open_draft(qp))
		return;
	keep_error(qp, draft_inline(qp));
	for (size_t i = 0; !qp->builder.err && i < n; i++)
		keep_error(qp, draft_add_inline(qp, list[i].addr, list[i].length));
}

void post_value(struct qp *qp, const void *value)
{
	if (open_draft(qp))
		draft_value(qp, value);
}

void post_flush(struct qp *qp, size_t len, uint8_t type, uint8_t level)
{
	if (open_draft(qp))
		keep_error(qp, draft_flush(qp, len, type, level));
}

void post_ud(struct qp *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	if (open_draft(qp))
		keep_error(qp, draft_ud(qp, ah, qpn, qkey));
}

void post_srqn(struct qp *qp, uint32_t srqn)
{
	if (open_draft(qp))
		keep_error(qp, draft_to_srq(qp, srqn));
}

void post_bind(struct qp *qp, struct ibv_mw *mw, uint32_t rkey,
	       const struct ibv_mw_bind_info *info)
{
	if (open_draft(qp))
		keep_error(qp, draft_bind(qp, mw, rkey, info));
}
