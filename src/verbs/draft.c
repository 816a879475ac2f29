/* SPDX-License-Identifier: BSD-2-Clause */
/* draft.c - see draft.h. */
#include "verbs/draft.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sys/clock.h"
#include "sys/inside.h"
#include "sys/log.h"
#include "verbs/complete.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/flush.h"
#include "verbs/like.h"
#include "verbs/mr.h"
#include "verbs/qp_kind.h"
#include "verbs/qp_state.h"
#include "verbs/wr_op.h"

enum { VALUE = 8 }; /* bytes of an atomic write */

#define QPN_NONE UINT32_MAX /* marks a UD draft whose address is not set yet */

int post_refuse(const struct qp *qp, const char *fmt, ...)
{
	char why[160];
	va_list ap;

	if (log_level < LOG_INFO)
		return -EINVAL;
	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	log_info("QP 0x%06x: post refused: %s", qp->qpn, why);
	return -EINVAL;
}

int post_refuse_sges(const struct qp *qp, size_t n, const char *limit, uint32_t max)
{
	if (n > max)
		return post_refuse(qp, "num_sge is %zu, and %s is %u", n, limit, max);
	return post_refuse(qp, "sg_list is NULL, and num_sge is %zu", n);
}

int post_full(const struct qp *qp, const char *which, const char *limit, uint32_t places)
{
	log_info("QP 0x%06x: post refused: the %s queue is full: a place returns when "
		 "the completion that covers its request is polled; that of an "
		 "unsignaled send is the next of a signaled one (%s is %u)",
		 qp->qpn, which, limit, places);
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

int post_may_send(const struct qp *qp)
{
	if (qp->ctx->dead)
		return -EIO;
	if (!sends(qp))
		return post_refuse(qp, "the state of the QP is %s: it sends from RTS on",
				   qp_state_name(qp->state));
	return 0;
}

/* --- posters take turns -------------------------------------------------- */

bool post_wait(struct qp *qp)
{
	if (qp->builder.thread == &inside_calls)
		return false;
	qp->builder.waiters++;
	while (qp->builder.active && !qp->ctx->dead)
		lock_sleep(&qp->lock, &qp->builder.done);
	qp->builder.waiters--;
	return true;
}

bool post_commit(struct qp *qp)
{
	qp->sq.head = qp->sq.draft;
	if (qp->state == IBV_QPS_RTS)
		return qp->sq.tail == qp->sq.head;
	qp_flush(qp, clock_ns());
	return false;
}

uint32_t post_bytes(const struct qp *qp, const struct ibv_send_wr *wr)
{
	bool is_inline = wr->send_flags & IBV_SEND_INLINE;
	uint64_t sum = 0;

	if (wr->send_flags & ~(unsigned)SEND_FLAGS || !wr->sg_list || wr->num_sge < 0 ||
	    (uint32_t)wr->num_sge > qp->sq.max_sge ||
	    (is_inline && wr->opcode != IBV_WR_RDMA_WRITE))
		return 0;
	for (int i = 0; i < wr->num_sge; i++)
		sum += wr->sg_list[i].length;
	return sum > (is_inline ? qp->sq.max_inline : caps.max_msg) ? 0 : (uint32_t)sum;
}

void sq_post_begun(struct qp *qp, const struct ibv_send_wr *wr)
{
	struct sq *sq = &qp->sq;
	struct swqe *w = sq_at(sq, sq->head);

	*sq_sges(sq, sq->head) = *wr->sg_list;
	*w = (struct swqe){ .length = wr->sg_list->length, .num_sge = 1 };
	post_take_over(qp, w, wr, true);
	sq->head++;
}

/* --- the steps ----------------------------------------------------------- */

int draft_begin(struct qp *qp, const struct wr_op *op, unsigned opcode, uint64_t wr_id,
		unsigned flags)
{
	struct sq *sq = &qp->sq;
	char whose[LIKE_TEXT];
	struct swqe *w;

	if (!op || !wr_op_allowed(op, qp->wr_type))
		return post_refuse(qp, "%s",
				   *like_op_text(opcode, whose)
					   ? whose
					   : "the opcode is unknown, or not for this QP "
					     "type");
	if (flags & ~(unsigned)SEND_FLAGS)
		return post_refuse(qp, "a send flag is unknown");
	if (flags & IBV_SEND_INLINE && !(op->traits & WR_INLINE))
		return post_refuse(qp, "the opcode cannot be inline");
	if (sq->draft == sq->room)
		return post_full(qp, "send", "max_send_wr", sq->cap);
	w = sq_at(sq, sq->draft++);
	memset(w, 0, sizeof(*w));
	w->wr_id = wr_id;
	w->opcode = (uint8_t)opcode;
	w->flags = post_flags(qp, flags);
	if (qp->type == IBV_QPT_UD)
		w->ud.qpn = QPN_NONE;
	return 0;
}

int draft_sges(struct qp *qp, size_t n, const struct ibv_sge *list)
{
	struct sq *sq = &qp->sq;
	struct swqe *w = draft_last(sq);
	char whose[LIKE_TEXT];
	uint64_t total = 0;

	if (n > sq->max_sge || (n && !list))
		return post_refuse_sges(qp, n, "max_send_sge", qp->sq.max_sge);
	for (size_t i = 0; i < n; i++)
		total += list[i].length;
	if (total > caps.max_msg)
		return post_refuse(
			qp, "the message is of %llu bytes, of which %u are possible%s",
			(unsigned long long)total, caps.max_msg,
			like_limit_text(LIKE_max_msg_sz, whose));
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

int draft_inline(struct qp *qp)
{
	struct sq *sq = &qp->sq;
	struct swqe *w = draft_last(sq);

	if (!(wr_op(w->opcode)->traits & WR_INLINE))
		return post_refuse(qp, "the opcode cannot be inline");
	w->flags |= IBV_SEND_INLINE;
	w->length = 0;
	w->num_sge = 1;
	*sq_sges(sq, sq->draft - 1) = (struct ibv_sge){
		.addr = sq->inl ? (uintptr_t)inline_room(sq) : 0,
	};
	return 0;
}

int draft_add_inline(struct qp *qp, const void *from, size_t n)
{
	struct sq *sq = &qp->sq;
	struct swqe *w = draft_last(sq);

	if (n > sq->max_inline - w->length)
		return post_refuse(qp,
				   "%zu bytes of inline data, and max_inline_data is %u",
				   w->length + n, sq->max_inline);
	if (n)
		memcpy(inline_room(sq) + w->length, from, n);
	w->length += (uint32_t)n;
	sq_sges(sq, sq->draft - 1)->length = w->length;
	return 0;
}

int draft_inline_sges(struct qp *qp, size_t n, const struct ibv_sge *list)
{
	int rc;

	if (n > qp->sq.max_sge || (n && !list))
		return post_refuse_sges(qp, n, "max_send_sge", qp->sq.max_sge);
	rc = draft_inline(qp);
	for (size_t i = 0; !rc && i < n; i++)
		rc = draft_add_inline(qp, (const void *)(uintptr_t)list[i].addr,
				      list[i].length);
	return rc;
}

int draft_flush(struct qp *qp, size_t len, uint8_t type, uint8_t level)
{
	struct swqe *w = draft_last(&qp->sq);

	if (!type || type > FLUSH_KNOWN)
		return post_refuse(qp,
				   "a FLUSH has no placement type, or an unknown one");
	if (level != IBV_FLUSH_RANGE && level != IBV_FLUSH_MR)
		return post_refuse(qp, "a FLUSH has an unknown selectivity level");
	if (level == IBV_FLUSH_RANGE && len > UINT32_MAX)
		return post_refuse(qp, "the range of a FLUSH is longer than 4 GiB - 1");
	w->flush.feth = feth_bits(type, level);
	w->flush.length = level == IBV_FLUSH_RANGE ? (uint32_t)len : 0;
	return 0;
}

void draft_value(struct qp *qp, const void *value)
{
	memcpy(&draft_last(&qp->sq)->atomic.swap, value, VALUE);
}

int draft_value_sges(struct qp *qp, size_t n, const struct ibv_sge *list)
{
	uint8_t value[VALUE];
	size_t got = 0;

	if (n > qp->sq.max_sge || (n && !list))
		return post_refuse_sges(qp, n, "max_send_sge", qp->sq.max_sge);
	for (size_t i = 0; i < n; i++) {
		if (list[i].length > VALUE - got)
			return post_refuse(qp, "an atomic write needs exactly 8 bytes");
		memcpy(value + got, (const void *)(uintptr_t)list[i].addr,
		       list[i].length);
		got += list[i].length;
	}
	if (got != VALUE)
		return post_refuse(qp, "an atomic write needs exactly 8 bytes");
	draft_value(qp, value);
	return 0;
}

int draft_ud(struct qp *qp, struct ibv_ah *ibv, uint32_t qpn, uint32_t qkey)
{
	struct swqe *w = draft_last(&qp->sq);
	struct ah *ah;

	if (qp->type != IBV_QPT_UD || !ibv)
		return post_refuse(qp, "there is no address handle, or the QP is not UD");
	ah = ah_of(ibv);
	if (!live_is(&ah->live, LIVE_AH))
		return post_refuse(qp,
				   "the address handle does not exist (freed already?)");
	if (ah->pd != qp->pd)
		return post_refuse(qp, "the address handle is of another PD");
	if (qpn > 0xffffff)
		return post_refuse(qp, "the remote QP number has more than 24 bits");
	w->ud.path = ah->path;
	w->ud.qpn = qpn;
	w->ud.qkey = qkey;
	return 0;
}

static int address_ud(struct qp *qp, const struct ibv_send_wr *wr)
{
	return draft_ud(qp, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
}

const struct qp_kind qp_kind_ud = {
	.name = "UD",
	.has = QP_HAS_ALL,
	.flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
	.address = address_ud,
};

static bool is_ours(const struct qp *qp, const struct live *l, enum live_kind kind)
{
	const void *owner;

	return live_find(l, kind, &owner) && owner == qp->ctx->ibv;
}

int draft_bind(struct qp *qp, struct ibv_mw *mw, uint32_t rkey,
	       const struct ibv_mw_bind_info *info)
{
	struct swqe *w = draft_last(&qp->sq);

	if (!(wr_op(w->opcode)->traits & WR_BIND) || !mw || !info)
		return post_refuse(qp, "a bind names no window");
	if (inside_calls > 1)
		return -EDEADLK; /* the interrupted call may hold the table of objects */
	if (!is_ours(qp, &mw_of(mw)->live, LIVE_MW) ||
	    (info->mr && !is_ours(qp, &mr_of(info->mr)->live, LIVE_MR)))
		return post_refuse(qp,
				   "a bind names a window or region that does not exist "
				   "(freed already?), or is of another context");
	w->imm = mw_key(mw_of(mw), rkey);
	w->bind.handle = mw->handle;
	w->bind.type = mw->type;
	w->bind.info = *info;
	/* The bind keeps the key and not info->mr, which the program may free before
	 * the bind is executed. */
	w->rkey = info->mr ? info->mr->lkey : 0;
	w->bind.info.mr = NULL;
	return 0;
}

/* A request that is not of WR_DATA. */
static int end_without_data(const struct qp *qp, const struct wr_op *op, struct swqe *w)
{
	char whose[LIKE_TEXT];

	if (!(op->traits & WR_FEW)) {
		w->num_sge = 0;
		w->length = 0;
	} else if (w->num_sge > caps.max_sge_rd) {
		return post_refuse(qp, "num_sge of a READ is %u%s", w->num_sge,
				   like_limit_text(LIKE_max_sge_rd, whose));
	}
	return 0;
}

int draft_end(struct qp *qp)
{
	struct swqe *w = draft_last(&qp->sq);
	const struct wr_op *op = wr_op(w->opcode);

	if (op->traits & WR_ATOMIC && w->length != 8)
		return post_refuse(qp, "an atomic needs exactly 8 bytes of SGEs");
	if (qp->type == IBV_QPT_UD && w->ud.qpn == QPN_NONE)
		return post_refuse(qp, "ibv_wr_set_ud_addr was not called");
	if (op->traits & WR_BIND && w->bind.type == 0)
		return post_refuse(qp, "a bind names no window");
	if (!(op->traits & WR_DATA) && end_without_data(qp, op, w))
		return -EINVAL;
	if (op->traits & WR_VALUE) {
		w->flags |= IBV_SEND_INLINE;
		w->num_sge = 1;
		w->length = VALUE;
		*sq_sges(&qp->sq, qp->sq.draft - 1) = (struct ibv_sge){
			.addr = (uintptr_t)&w->atomic.swap,
			.length = VALUE,
		};
	}
	return 0;
}
