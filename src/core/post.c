/* SPDX-License-Identifier: BSD-2-Clause */
/* post.c - posting work requests (IBTA vol. 1, 10.8, 11.4.1).
 *
 * A request is a draft, past sq.head where no transport looks, until it is
 * complete.  ibv_post_send() and ibv_wr_*() fill drafts with the same steps:
 * begin, set_*, end.
 *
 * ibv_post_send() holds qp->lock throughout.  From ibv_wr_start() to
 * ibv_wr_complete() the program's own code runs, for as long as it likes, so
 * qp->lock is free meanwhile: the engine and control calls go on, and other
 * posters see `building` and wait.  Without the lock a builder touches only
 * what posters alone use (draft, room, wr_err, the ring past head) and what
 * never changes.
 */
#include "core/post.h"

#include <errno.h>
#include <string.h>

#include "core/complete.h"
#include "core/core.h"
#include "core/device.h"
#include "core/mr.h"
#include "core/qp.h"
#include "core/transport.h"
#include "core/wr_op.h"
#include "sys/clock.h"
#include "sys/log.h"

#define QPN_NONE UINT32_MAX /* a UD draft without its address */

enum {
	FLAGS = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE,
	/* Bytes that a call does at once: the engine waits for qp->lock meanwhile. */
	AT_ONCE = 256 << 10,
};

static int refuse(const struct qp *qp, const char *why)
{
	log_info("qp 0x%06x: post refused: %s", qp->qpn, why);
	return -EINVAL;
}

static int full(const struct qp *qp, const char *which)
{
	log_info("qp 0x%06x: post refused: the %s queue is full", qp->qpn, which);
	return -ENOMEM;
}

static bool sends(const struct qp *qp)
{
	switch (qp->state) {
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
	case IBV_QPS_SQE:
	case IBV_QPS_ERR:
		return true;
	case IBV_QPS_RESET:
	case IBV_QPS_INIT:
	case IBV_QPS_RTR:
	case IBV_QPS_UNKNOWN:
		return false;
	}
	return false;
}

static int may_send(const struct qp *qp)
{
	if (qp->ctx->dead)
		return -EIO;
	if (!sends(qp))
		return refuse(qp, "the QP is in a state that does not send");
	return 0;
}

/* --- posters take turns -------------------------------------------------- */

/* Until no other thread builds requests for this QP. */
static void wait_for_builder(struct qp *qp) REQUIRES(qp->lock)
{
	qp->posters_waiting++;
	while (qp->building && !qp->ctx->dead)
		lock_sleep(&qp->lock, &qp->built);
	qp->posters_waiting--;
}

/* The caller is the one poster now: drafts may go up to sq->room. */
static inline void begin_post(struct qp *qp) REQUIRES(qp->lock)
{
	if (qp->building)
		wait_for_builder(qp);
	qp->sq.room = qp->sq.tail + qp->sq.cap;
}

/* --- the steps ----------------------------------------------------------- */

/* op: opcode's row, or NULL. */
static int begin(struct qp *qp, const struct wr_op *op, unsigned opcode, uint64_t wr_id,
		 unsigned flags)
{
	struct sq *sq = &qp->sq;
	struct swqe *w;

	if (!op || !wr_op_allowed(op, qp->wr_type))
		return refuse(qp, "opcode unknown, or not for this QP type");
	if (flags & ~(unsigned)FLAGS)
		return refuse(qp, "send flag unknown");
	if (flags & IBV_SEND_INLINE && !(op->traits & WR_INLINE))
		return refuse(qp, "opcode cannot be inline");
	if (sq->draft == sq->room)
		return full(qp, "send");
	w = sq_at(sq, sq->draft++);
	memset(w, 0, sizeof(*w));
	w->wr_id = wr_id;
	w->opcode = (uint8_t)opcode;
	w->flags = (uint8_t)(flags | (qp->sig_all ? IBV_SEND_SIGNALED : 0));
	if (qp->type == IBV_QPT_UD)
		w->ud.qpn = QPN_NONE;
	return 0;
}

static struct swqe *draft(struct sq *sq)
{
	return sq_at(sq, sq->draft - 1);
}

static int set_sges(struct qp *qp, size_t n, const struct ibv_sge *list)
{
	struct sq *sq = &qp->sq;
	struct swqe *w = draft(sq);
	uint64_t total = 0;

	if (n > sq->max_sge || (n && !list))
		return refuse(qp, "num_sge above max_send_sge, or no list");
	for (size_t i = 0; i < n; i++)
		total += list[i].length;
	if (total > caps.max_msg)
		return refuse(qp, "message longer than 2 GiB - 1");
	if (n)
		memcpy(sq_sges(sq, sq->draft - 1), list, n * sizeof(*list));
	w->flags &= (uint8_t)~IBV_SEND_INLINE;
	w->num_sge = (uint16_t)n;
	w->length = (uint32_t)total;
	return 0;
}

static uint8_t *inline_room(struct sq *sq)
{
	return sq->inl + (size_t)((sq->draft - 1) & (sq->size - 1)) * sq->max_inline;
}

/* The payload becomes one SGE: ours, so its lkey does not count. */
static int begin_inline(struct qp *qp)
{
	struct sq *sq = &qp->sq;
	struct swqe *w = draft(sq);

	if (!(wr_op(w->opcode)->traits & WR_INLINE))
		return refuse(qp, "opcode cannot be inline");
	w->flags |= IBV_SEND_INLINE;
	w->length = 0;
	w->num_sge = 1;
	*sq_sges(sq, sq->draft - 1) = (struct ibv_sge){
		.addr = sq->inl ? (uintptr_t)inline_room(sq) : 0,
	};
	return 0;
}

static int add_inline(struct qp *qp, const void *from, size_t n)
{
	struct sq *sq = &qp->sq;
	struct swqe *w = draft(sq);

	if (n > sq->max_inline - w->length)
		return refuse(qp, "inline data longer than max_inline_data");
	if (n)
		memcpy(inline_room(sq) + w->length, from, n);
	w->length += (uint32_t)n;
	sq_sges(sq, sq->draft - 1)->length = w->length;
	return 0;
}

static int set_inline_sges(struct qp *qp, size_t n, const struct ibv_sge *list)
{
	int rc;

	if (n > qp->sq.max_sge || (n && !list))
		return refuse(qp, "num_sge above max_send_sge, or no list");
	rc = begin_inline(qp);
	for (size_t i = 0; !rc && i < n; i++)
		rc = add_inline(qp, (const void *)(uintptr_t)list[i].addr,
				list[i].length);
	return rc;
}

static int set_ud(struct qp *qp, struct ibv_ah *ibv, uint32_t qpn, uint32_t qkey)
{
	struct swqe *w = draft(&qp->sq);
	struct ah *ah;

	if (qp->type != IBV_QPT_UD || !ibv)
		return refuse(qp, "no address handle, or not a UD QP");
	ah = ah_of(ibv);
	if (!live_is(&ah->live, LIVE_AH))
		return refuse(qp, "an address handle that does not exist (freed "
				  "already?)");
	if (ah->pd != qp->pd)
		return refuse(qp, "address handle of another PD");
	if (qpn > 0xffffff)
		return refuse(qp, "remote QP number above 24 bits");
	w->ud.path = ah->path;
	w->ud.qpn = qpn;
	w->ud.qkey = qkey;
	return 0;
}

static int set_srqn(struct qp *qp, uint32_t srqn)
{
	if (qp->type != IBV_QPT_XRC_SEND || srqn > 0xffffff)
		return refuse(qp, "remote SRQ number above 24 bits, or not an XRC QP");
	draft(&qp->sq)->srqn = srqn;
	return 0;
}

static bool is_ours(const struct qp *qp, const struct live *l, enum live_kind kind)
{
	const void *owner;

	return live_find(l, kind, &owner) && owner == qp->ctx->ibv;
}

static int set_bind(struct qp *qp, struct ibv_mw *mw, uint32_t rkey,
		    const struct ibv_mw_bind_info *info)
{
	struct swqe *w = draft(&qp->sq);

	if (!(wr_op(w->opcode)->traits & WR_BIND) || !mw || !info)
		return refuse(qp, "bind without a window");
	if (!is_ours(qp, &mw_of(mw)->live, LIVE_MW) ||
	    (info->mr && !is_ours(qp, &mr_of(info->mr)->live, LIVE_MR)))
		return refuse(qp, "bind of a window, or to a region, that does not exist "
				  "(freed already?), or is of another context");
	w->imm = rkey;
	w->bind.old_rkey = mw->rkey;
	w->bind.type = mw->type;
	w->bind.info = *info;
	/* info->mr may be freed before the bind's turn comes. */
	w->rkey = info->mr ? info->mr->lkey : 0;
	w->bind.info.mr = NULL;
	return 0;
}

static int end(struct qp *qp)
{
	struct swqe *w = draft(&qp->sq);
	const struct wr_op *op = wr_op(w->opcode);

	if (op->traits & WR_ATOMIC && w->length != 8)
		return refuse(qp, "an atomic needs exactly 8 bytes of SGEs");
	if (qp->type == IBV_QPT_UD && w->ud.qpn == QPN_NONE)
		return refuse(qp, "no address set");
	if (op->traits & WR_BIND && w->bind.type == 0)
		return refuse(qp, "bind without a window");
	if (!(op->traits & WR_DATA)) {
		w->num_sge = 0;
		w->length = 0;
	}
	return 0;
}

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
	int rc = begin(qp, op, wr->opcode, wr->wr_id, wr->send_flags);
	unsigned traits;

	if (rc)
		return rc;
	traits = op->traits;
	set_remote(draft(&qp->sq), traits, wr);
	if (wr->num_sge < 0)
		rc = refuse(qp, "num_sge is negative");
	else if (wr->send_flags & IBV_SEND_INLINE)
		rc = set_inline_sges(qp, (size_t)wr->num_sge, wr->sg_list);
	else if (traits & WR_DATA)
		rc = set_sges(qp, (size_t)wr->num_sge, wr->sg_list);
	if (!rc && qp->type == IBV_QPT_XRC_SEND)
		rc = set_srqn(qp, wr->qp_type.xrc.remote_srqn);
	if (!rc && qp->type == IBV_QPT_UD)
		rc = set_ud(qp, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
			    wr->wr.ud.remote_qkey);
	if (!rc && traits & WR_BIND)
		rc = set_bind(qp, wr->bind_mw.mw, wr->bind_mw.rkey,
			      &wr->bind_mw.bind_info);
	return rc ? rc : end(qp);
}

/* What was posted in ERR or SQE is flushed at once.  True: there is nothing for the
 * engine to do. */
static bool commit(struct qp *qp) REQUIRES(qp->lock)
{
	qp->sq.head = qp->sq.draft;
	if (qp->state == IBV_QPS_RTS)
		return qp->sq.tail == qp->sq.head;
	qp_flush(qp, clock_ns());
	return false;
}

static inline bool may_be_at_once(const struct qp *qp) REQUIRES(qp->lock)
{
	return atomic_load_explicit(&qp->at_once, memory_order_relaxed) &&
	       qp->state == IBV_QPS_RTS;
}

/* The oldest draft is done now, if nothing that was posted before it waits. */
static inline bool at_once(struct qp *qp, const struct ibv_sge *sge) REQUIRES(qp->lock)
{
	qp->sq.head++;
	if (qp->transport->at_once(qp, sge))
		return true;
	qp->sq.head--;
	return false;
}

/* The same for what is no draft yet, if there is none: what can be done at once is
 * spared most of becoming one.  False: it is to become one. */
static inline bool post_at_once(struct qp *qp, const struct ibv_send_wr *wr)
	REQUIRES(qp->lock)
{
	struct sq *sq = &qp->sq;
	struct swqe *w = sq_at(sq, sq->head);

	if (wr->num_sge != 1 || !wr->sg_list || wr->send_flags & ~(unsigned)FLAGS ||
	    sq->head - sq->tail >= sq->cap)
		return false;
	if (wr->send_flags & IBV_SEND_INLINE &&
	    (wr->opcode != IBV_WR_RDMA_WRITE || wr->sg_list->length > sq->max_inline))
		return false;
	if (wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_READ) {
		w->remote_addr = wr->wr.rdma.remote_addr;
		w->rkey = wr->wr.rdma.rkey;
	} else if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
		   wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		w->remote_addr = wr->wr.atomic.remote_addr;
		w->rkey = wr->wr.atomic.rkey;
		w->atomic.compare_add = wr->wr.atomic.compare_add;
		w->atomic.swap = wr->wr.atomic.swap;
	} else {
		return false;
	}
	w->wr_id = wr->wr_id;
	w->opcode = (uint8_t)wr->opcode;
	w->flags = (uint8_t)(wr->send_flags | (qp->sig_all ? IBV_SEND_SIGNALED : 0));
	w->num_sge = 1;
	w->length = wr->sg_list->length;
	return at_once(qp, wr->sg_list);
}

int qp_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct sq *sq = &qp->sq;
	uint64_t did = 0;
	uint32_t good;
	bool idle;
	int rc;

	lock_take(&qp->lock);
	begin_post(qp);
	rc = wr ? may_send(qp) : 0;
	sq->draft = sq->head;
	for (good = sq->head; !rc && wr; wr = wr->next, good++) {
		if (good == sq->head && did < AT_ONCE && may_be_at_once(qp) &&
		    post_at_once(qp, wr)) {
			did += wr->sg_list->length;
			sq->draft = sq->head;
			sq->room = sq->tail + sq->cap;
			continue;
		}
		rc = post_one(qp, wr);
		if (rc)
			break;
	}
	sq->draft = good;
	idle = commit(qp);
	lock_give(&qp->lock);
	if (rc && bad)
		*bad = wr;
	return rc ? rc : idle;
}

/* --- ibv_post_recv ------------------------------------------------------- */

static int recv_one(struct qp *qp, const struct ibv_recv_wr *wr)
{
	int rc = rq_post(&qp->rq, wr);

	if (rc == -EINVAL)
		return refuse(qp, "num_sge above max_recv_sge, or no list");
	return rc == -ENOMEM ? full(qp, "receive") : rc;
}

int qp_post_recv(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int rc = 0;

	lock_take(&qp->lock);
	if (qp->ctx->dead)
		rc = -EIO;
	else if (qp->srq || qp->xrcd || qp->type == IBV_QPT_XRC_SEND)
		rc = refuse(qp, "its receives come from an SRQ, or it has none");
	else if (qp->state == IBV_QPS_RESET)
		rc = refuse(qp, "the QP is in RESET");
	for (; !rc && wr; wr = wr->next) {
		rc = recv_one(qp, wr);
		if (rc)
			break;
	}
	if (qp->state == IBV_QPS_ERR)
		qp_flush(qp, clock_ns());
	lock_give(&qp->lock);
	if (rc && bad)
		*bad = wr;
	return rc;
}

/* --- ibv_wr_* ------------------------------------------------------------ */

static void keep(struct qp *qp, int rc)
{
	if (!qp->wr_err)
		qp->wr_err = rc;
}

/* Is there a draft to set something in? */
static bool open_draft(struct qp *qp)
{
	if (!qp->wr_err && qp->sq.draft == qp->sq.head)
		keep(qp, refuse(qp, "nothing begun"));
	return !qp->wr_err;
}

static void end_open(struct qp *qp)
{
	if (!qp->wr_err && qp->sq.draft != qp->sq.head)
		keep(qp, end(qp));
}

void post_start(struct qp *qp)
{
	lock_take(&qp->lock);
	begin_post(qp);
	qp->building = true;
	qp->wr_err = 0;
	qp->sq.draft = qp->sq.head;
	lock_give(&qp->lock);
}

static void end_building(struct qp *qp) REQUIRES(qp->lock)
{
	qp->building = false;
	if (qp->posters_waiting)
		lock_changed(&qp->built);
}

/* As much of the drafts as is done at once. */
static void drafts_at_once(struct qp *qp) REQUIRES(qp->lock)
{
	struct sq *sq = &qp->sq;

	for (uint64_t did = 0; sq->head != sq->draft && did < AT_ONCE;) {
		uint32_t length = sq_at(sq, sq->head)->length;

		if (!may_be_at_once(qp) || !at_once(qp, sq_sges(sq, sq->head)))
			return;
		did += length;
	}
}

int post_complete(struct qp *qp)
{
	bool idle = false;
	int rc;

	end_open(qp);
	lock_take(&qp->lock);
	rc = qp->wr_err;
	if (!rc && qp->sq.draft != qp->sq.head)
		rc = may_send(qp);
	if (rc)
		qp->sq.draft = qp->sq.head;
	else
		drafts_at_once(qp);
	if (!rc)
		idle = commit(qp);
	end_building(qp);
	lock_give(&qp->lock);
	return rc ? rc : idle;
}

void post_abort(struct qp *qp)
{
	lock_take(&qp->lock);
	qp->sq.draft = qp->sq.head;
	end_building(qp);
	lock_give(&qp->lock);
}

/* Work may have completed since the start.  (A forked child's lock may be one
 * that nobody gives.) */
static void look_for_room(struct qp *qp)
{
	if (qp->wr_err || qp->ctx->dead)
		return;
	lock_take(&qp->lock);
	qp->sq.room = qp->sq.tail + qp->sq.cap;
	lock_give(&qp->lock);
}

struct swqe *post_draft(struct qp *qp, enum ibv_wr_opcode opcode)
{
	const struct wr_op *op = wr_op(opcode);

	end_open(qp);
	if (!qp->wr_err && op && !(op->send_op & qp->send_ops))
		keep(qp, refuse(qp, "operation not in send_ops_flags"));
	if (qp->sq.draft == qp->sq.room)
		look_for_room(qp);
	if (!qp->wr_err)
		keep(qp, begin(qp, op, opcode, qp->ex.wr_id,
			       qp->ex.wr_flags & ~(unsigned)IBV_SEND_INLINE));
	return qp->wr_err ? NULL : draft(&qp->sq);
}

void post_sge(struct qp *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	post_sge_list(qp, 1, &sge);
}

void post_sge_list(struct qp *qp, size_t n, const struct ibv_sge *list)
{
	if (open_draft(qp))
		keep(qp, set_sges(qp, n, list));
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
	keep(qp, begin_inline(qp));
	for (size_t i = 0; !qp->wr_err && i < n; i++)
		keep(qp, add_inline(qp, list[i].addr, list[i].length));
}

void post_ud(struct qp *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	if (open_draft(qp))
		keep(qp, set_ud(qp, ah, qpn, qkey));
}

void post_srqn(struct qp *qp, uint32_t srqn)
{
	if (open_draft(qp))
		keep(qp, set_srqn(qp, srqn));
}

void post_bind(struct qp *qp, struct ibv_mw *mw, uint32_t rkey,
	       const struct ibv_mw_bind_info *info)
{
	if (open_draft(qp))
		keep(qp, set_bind(qp, mw, rkey, info));
}
