/* SPDX-License-Identifier: BSD-2-Clause */
/* wr.c - ibv_wr_*(); see ops.h.  Requests are in the queue, `building', from the call
 * that begins them; ibv_wr_complete() gives them to the NIC. */
#include <errno.h>

#include "check/heard.h"
#include "check/object.h"
#include "check/ops.h"
#include "check/queue.h"
#include "check/tell.h"

static union {
	struct ibv_qp_ex ex;
	struct newer_qp_ex newer;
} real; /* as in ops.c */
static struct lock real_lock;

/* The QP that a thread builds requests for, if they are looked at. */
static struct check_qp *built_qp(struct ibv_qp_ex *ex)
{
	struct check_qp *qp = object_qp(&ex->qp_base);

	if (!qp || qp->o.gone)
		return NULL;
	if (ops_begin())
		return qp;
	qp->sq.unsure = true;
	return NULL;
}

/* The rings of a QP that is destroyed are freed. */
static bool is_gone(struct ibv_qp_ex *ex)
{
	const struct check_qp *qp = object_qp(&ex->qp_base);

	return qp && qp->o.gone;
}

/* Returns whether the NIC is told. */
static bool begin_wr(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
		     uint64_t addr, check_trace trace)
{
	struct check_qp *qp = built_qp(ex);
	struct check_wr *w;

	if (!qp)
		return !is_gone(ex);
	brief_take(&qp->lock);
	w = check_queue_add(&qp->sq);
	if (w) {
		w->wr_id = ex->wr_id;
		w->opcode = (uint8_t)opcode;
		w->flags =
			(uint8_t)(ex->wr_flags | (qp->sig_all ? IBV_SEND_SIGNALED : 0));
		w->rkey = rkey;
		w->remote_addr = addr;
		w->trace = trace;
		w->building = true;
		w->batch = qp->batch;
	}
	qp->draft = w;
	brief_give(&qp->lock);
	ops_end();
	return true;
}

static bool add_sge(struct ibv_qp_ex *ex, const struct ibv_sge *sge, bool in_line)
{
	struct check_qp *qp = built_qp(ex);
	struct check_wr *w;

	if (!qp)
		return !is_gone(ex);
	brief_take(&qp->lock);
	w = qp->draft;
	if (w) {
		if (in_line)
			w->flags |= IBV_SEND_INLINE;
		if (w->num_sge < qp->sq.max_sge)
			w->sge[w->num_sge++] = *sge;
		w->length += sge->length;
		w->huge |= sge->length >> HUGE_BITS;
	}
	brief_give(&qp->lock);
	ops_end();
	return true;
}

/* --- start and end ---------------------------------------------------------- */

static void wr_start(struct ibv_qp_ex *ex)
{
	struct check_qp *qp = object_qp(&ex->qp_base);

	if (qp && qp->o.gone) {
		if (ops_begin()) {
			TELL(stale, &qp->o, LIVE_QP, false);
			ops_end();
		}
		return;
	}
	real.ex.wr_start(ex); /* from here on this thread alone builds */
	qp = built_qp(ex);
	if (!qp)
		return;
	brief_take(&qp->lock);
	qp->batch++;
	qp->draft = NULL;
	brief_give(&qp->lock);
	ops_end();
}

/* Hands the requests of the batch to the parts, as they are posted now. */
static void post_batch(struct check_qp *qp, uint32_t batch)
{
	const uint64_t now = check_now();
	struct check_wr *w;
	uint64_t number;

	brief_take(&qp->lock);
	number = heard_post();
	qp->draft = NULL;
	check_for_each(w, &qp->sq)
	{
		if (w->batch != batch || !w->building)
			continue;
		w->building = false;
		ops_post(qp, w, now, number);
	}
	qp->sq.posted = true;
	brief_give(&qp->lock);
}

static void drop_batch(struct check_qp *qp, uint32_t batch, int rc)
{
	bool first = rc != 0;
	struct check_wr *w;
	uint32_t from;

	brief_take(&qp->lock);
	qp->draft = NULL;
	from = qp->sq.tail;
	for (uint32_t at = qp->sq.head; at-- != from;) {
		w = check_wr_at(&qp->sq, at);
		if (w->gone || w->batch != batch)
			continue;
		ops_refuse(qp, &qp->sq, w, rc, first);
		first = false;
	}
	brief_give(&qp->lock);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct check_qp *qp = object_qp(&ex->qp_base);
	uint32_t batch;
	int rc;

	if (qp && qp->o.gone)
		return EINVAL;
	if (!qp || !ops_begin())
		return real.ex.wr_complete(ex);
	batch = qp->batch;
	post_batch(qp, batch);
	ops_end();
	rc = real.ex.wr_complete(ex);
	ops_enter();
	if (rc)
		drop_batch(qp, batch, rc);
	ops_end();
	return rc;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct check_qp *qp = built_qp(ex);

	if (qp) {
		drop_batch(qp, qp->batch, 0);
		ops_end();
	}
	if (!is_gone(ex))
		real.ex.wr_abort(ex);
}

/* --- requests --------------------------------------------------------------- */

static void wr_send(struct ibv_qp_ex *ex)
{
	if (begin_wr(ex, IBV_WR_SEND, 0, 0, OPS_CALLER))
		real.ex.wr_send(ex);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	if (begin_wr(ex, IBV_WR_SEND_WITH_IMM, 0, 0, OPS_CALLER))
		real.ex.wr_send_imm(ex, imm);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	if (begin_wr(ex, IBV_WR_SEND_WITH_INV, 0, 0, OPS_CALLER))
		real.ex.wr_send_inv(ex, rkey);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	if (begin_wr(ex, IBV_WR_LOCAL_INV, 0, 0, OPS_CALLER))
		real.ex.wr_local_inv(ex, rkey);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	if (begin_wr(ex, IBV_WR_BIND_MW, 0, 0, OPS_CALLER))
		real.ex.wr_bind_mw(ex, mw, rkey, info);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	if (begin_wr(ex, IBV_WR_RDMA_WRITE, rkey, addr, OPS_CALLER))
		real.ex.wr_rdma_write(ex, rkey, addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
			      __be32 imm)
{
	if (begin_wr(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr, OPS_CALLER))
		real.ex.wr_rdma_write_imm(ex, rkey, addr, imm);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	if (begin_wr(ex, IBV_WR_RDMA_READ, rkey, addr, OPS_CALLER))
		real.ex.wr_rdma_read(ex, rkey, addr);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
			      uint64_t compare, uint64_t swap)
{
	if (begin_wr(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, OPS_CALLER))
		real.ex.wr_atomic_cmp_swp(ex, rkey, addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
				uint64_t add)
{
	if (begin_wr(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, OPS_CALLER))
		real.ex.wr_atomic_fetch_add(ex, rkey, addr, add);
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
			    const void *value)
{
	if (begin_wr(ex, IBV_WR_ATOMIC_WRITE, rkey, addr, OPS_CALLER))
		real.newer.wr_atomic_write(ex, rkey, addr, value);
}

static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, size_t len,
		     uint8_t type, uint8_t level)
{
	if (begin_wr(ex, IBV_WR_FLUSH, rkey, addr, OPS_CALLER))
		real.newer.wr_flush(ex, rkey, addr, len, type, level);
}

/* --- pieces of the latest request ------------------------------------------- */

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	const struct ibv_sge sge = { (uintptr_t)addr, (uint32_t)length, 0 };

	if (add_sge(ex, &sge, true))
		real.ex.wr_set_inline_data(ex, addr, length);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n,
				    const struct ibv_data_buf *list)
{
	for (size_t i = 0; i < n; i++) {
		const struct ibv_sge sge = { (uintptr_t)list[i].addr,
					     (uint32_t)list[i].length, 0 };

		(void)add_sge(ex, &sge, true);
	}
	if (!is_gone(ex))
		real.ex.wr_set_inline_data_list(ex, n, list);
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr,
		       uint32_t length)
{
	const struct ibv_sge sge = { addr, length, lkey };

	if (add_sge(ex, &sge, false))
		real.ex.wr_set_sge(ex, lkey, addr, length);
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	for (size_t i = 0; i < n; i++)
		(void)add_sge(ex, &list[i], false);
	if (!is_gone(ex))
		real.ex.wr_set_sge_list(ex, n, list);
}

void ops_of_qp(struct qp *qp)
{
	struct ibv_qp_ex *ex = &qp->ex;

	if (!qp->send_ops)
		return; /* has no ibv_wr_*() */
	lock_take(&real_lock);
	if (!real.ex.wr_start)
		real.newer = qp->newer;
	lock_give(&real_lock);
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	qp->newer.wr_atomic_write = wr_atomic_write;
	qp->newer.wr_flush = wr_flush;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
}
