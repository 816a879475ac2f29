/* SPDX-License-Identifier: BSD-2-Clause */
/* wr.c - ibv_wr_*(): work requests built piece by piece.
 *
 * Between wr_start and wr_complete or wr_abort the program's own code runs: it may poll,
 * make control calls, or fork. Only other posts to this QP wait (verbs/post_build.c).
 *
 * In a signal handler that has interrupted another call all of it is refused, and nothing
 * of the QP is touched: another thread may be building requests for it. */
#include <assert.h>
#include <stddef.h>

#include "abi/abi.h"
#include "driver/nic.h"
#include "verbs/flush.h"
#include "verbs/post.h"
#include "verbs/qp.h"

/* Is this such a handler?  Not to be asked after abi_enter(). */
static inline bool is_nested(void)
{
	return __builtin_expect(inside_calls, 0);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct qp *qp = qp_of_ex(ex);

	if (is_nested())
		return;
	if (abi_enter(ex->qp_base.context)) {
		post_start(qp);
		abi_end();
	} else {
		/* The QP's lock may be held by a thread that does not exist after the
		 * fork, so it is not taken: each piece of the request is refused. */
		qp->builder.err = -EIO;
	}
}

/* Returns false if the context is dead. In a forked child the QP stays as it is;
 * otherwise the building ends, as other threads may wait for that. */
static bool enter_built(struct ibv_qp_ex *ex)
{
	if (abi_enter(ex->qp_base.context))
		return true;
	if (!abi_forked(ex->qp_base.context))
		post_abort(qp_of_ex(ex));
	errno = EIO;
	return false;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct qp *qp = qp_of_ex(ex);
	int rc;

	if (is_nested())
		return abi_result(-EDEADLK);
	if (!enter_built(ex))
		return EIO;
	rc = post_complete(qp);
	if (!rc)
		nic_post(abi_of(ex->qp_base.context)->nic, qp, false);
	return abi_leave(rc > 0 ? 0 : rc);
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	if (is_nested() || !enter_built(ex))
		return;
	if (post_abort(qp_of_ex(ex)))
		nic_post(abi_of(ex->qp_base.context)->nic, qp_of_ex(ex), false);
	abi_end();
}

/* --- requests ------------------------------------------------------------ */

/* Returns NULL if the request is refused. */
static inline struct swqe *new_draft(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	return is_nested() ? NULL : post_draft(qp_of_ex(ex), opcode);
}

static void draft(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t imm)
{
	struct swqe *w = new_draft(ex, opcode);

	if (w)
		w->imm = imm;
}

static void draft_remote(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
			 uint64_t addr, uint32_t imm)
{
	struct swqe *w = new_draft(ex, opcode);

	if (!w)
		return;
	w->rkey = rkey;
	w->remote_addr = addr;
	w->imm = imm;
}

static void draft_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
			 uint64_t addr, uint64_t compare_add, uint64_t swap)
{
	struct swqe *w = new_draft(ex, opcode);

	if (!w)
		return;
	w->rkey = rkey;
	w->remote_addr = addr;
	w->atomic.compare_add = compare_add;
	w->atomic.swap = swap;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	draft(ex, IBV_WR_SEND, 0);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	draft(ex, IBV_WR_SEND_WITH_IMM, imm);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	draft(ex, IBV_WR_SEND_WITH_INV, rkey);
}

static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	(void)hdr, (void)hdr_sz, (void)mss;
	draft(ex, IBV_WR_TSO, 0); /* refused */
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	draft(ex, IBV_WR_LOCAL_INV, rkey);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	draft_remote(ex, IBV_WR_RDMA_WRITE, rkey, addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
			      __be32 imm)
{
	draft_remote(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr, imm);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	draft_remote(ex, IBV_WR_RDMA_READ, rkey, addr, 0);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
			      uint64_t compare, uint64_t swap)
{
	draft_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
				uint64_t add)
{
	draft_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, add, 0);
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
			    const void *value)
{
	draft_remote(ex, IBV_WR_ATOMIC_WRITE, rkey, addr, 0);
	if (!is_nested())
		post_value(qp_of_ex(ex), value);
}

static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, size_t len,
		     uint8_t type, uint8_t level)
{
	draft_remote(ex, IBV_WR_FLUSH, rkey, addr, 0);
	if (!is_nested())
		post_flush(qp_of_ex(ex), len, type, level);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	if (new_draft(ex, IBV_WR_BIND_MW))
		post_bind(qp_of_ex(ex), mw, rkey, info);
}

/* --- pieces of the latest request ---------------------------------------- */

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn,
			   uint32_t qkey)
{
	if (!is_nested())
		post_ud(qp_of_ex(ex), ah, qpn, qkey);
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	if (!is_nested())
		post_srqn(qp_of_ex(ex), srqn);
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	if (!is_nested())
		post_inline(qp_of_ex(ex), addr, length);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n,
				    const struct ibv_data_buf *list)
{
	if (!is_nested())
		post_inline_list(qp_of_ex(ex), n, list);
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr,
		       uint32_t length)
{
	if (!is_nested())
		post_sge(qp_of_ex(ex), lkey, addr, length);
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	if (!is_nested())
		post_sge_list(qp_of_ex(ex), n, list);
}

void abi_wr_ops(struct qp *qp)
{
	struct ibv_qp_ex *ex = &qp->ex;

	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	qp->newer.wr_atomic_write = wr_atomic_write;
	qp->newer.wr_flush = wr_flush;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
}
