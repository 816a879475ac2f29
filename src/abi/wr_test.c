/* SPDX-License-Identifier: BSD-2-Clause */
/* Work requests that are built piece by piece (ibv_wr_start() and the rest): wr.c. */
#include "abi/fix.h"

static struct swqe *last(struct ibv_qp *qp)
{
	return sq_at(&qp_of(qp)->sq, qp_of(qp)->sq.head - 1);
}

/* A list with a request of each kind, with and without data. */
static void pieces(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct qp *q = qp_of(qp);
	const struct ibv_sge list[2] = { { 0x10, 1, 3 }, { 0x20, 2, 3 } };
	struct ibv_data_buf buf[2] = { { fix.memory, 2 }, { fix.memory, 3 } };
	struct ibv_mw *mw = abi_alloc_mw(fix.pd, IBV_MW_TYPE_2);
	struct ibv_mr *mr = fix_mr(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	const struct ibv_mw_bind_info info = { .mr = mr,
					       .addr = (uintptr_t)fix.memory,
					       .length = 8,
					       .mw_access_flags =
						       IBV_ACCESS_REMOTE_READ };
	const uint32_t rkey = mw->rkey;
	const struct {
		enum ibv_wr_opcode opcode;
		uint32_t imm, rkey, length;
		uint64_t addr;
	} expected[] = {
		{ IBV_WR_SEND, 0, 0, 3, 0 },
		{ IBV_WR_SEND_WITH_IMM, 0x11, 0, 0, 0 },
		{ IBV_WR_SEND_WITH_INV, 0x12, 0, 2, 0 },
		{ IBV_WR_LOCAL_INV, 0x13, 0, 0, 0 },
		{ IBV_WR_RDMA_WRITE, 0, 0x14, 5, 0x140 },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 0x16, 0x15, 0, 0x150 },
		{ IBV_WR_RDMA_READ, 0, 0x17, 8, 0x170 },
		{ IBV_WR_BIND_MW, rkey + 1, mr->lkey, 0, 0 },
	};

	(void)state;
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ibv_wr_send(ex);
	ibv_wr_set_sge_list(ex, 2, list);
	ibv_wr_send_imm(ex, 0x11);
	ibv_wr_send_inv(ex, 0x12);
	ibv_wr_set_inline_data(ex, fix.memory, 2);
	ibv_wr_local_inv(ex, 0x13);
	ibv_wr_rdma_write(ex, 0x14, 0x140);
	ibv_wr_set_inline_data_list(ex, 2, buf);
	ibv_wr_rdma_write_imm(ex, 0x15, 0x150, 0x16);
	ibv_wr_rdma_read(ex, 0x17, 0x170);
	ibv_wr_set_sge(ex, 3, 0x18, 8);
	ibv_wr_bind_mw(ex, mw, rkey + 1, &info);
	assert_string_equal(fix_said(), "");
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_string_equal(fix_said(), "post");
	assert_int_equal(q->sq.head, 8);
	assert_int_equal(mw->rkey, rkey); /* as with mlx5 and rxe */
	for (uint32_t i = 0; i < 8; i++) {
		const struct swqe *w = sq_at(&q->sq, i);

		assert_int_equal(w->opcode, expected[i].opcode);
		assert_int_equal(w->imm, expected[i].imm);
		assert_int_equal(w->rkey, expected[i].rkey);
		if (w->opcode == IBV_WR_BIND_MW) {
			assert_int_equal(w->bind.info.length, 8);
			continue;
		}
		assert_int_equal(w->length, expected[i].length);
		assert_int_equal(w->remote_addr, expected[i].addr);
	}
	q->sq.tail = q->sq.head;
	assert_int_equal(abi_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void is_atomic(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t rkey,
		      uint64_t addr, uint64_t compare_add)
{
	const struct swqe *w = last(qp);

	assert_int_equal(w->opcode, opcode);
	assert_int_equal(w->rkey, rkey);
	assert_int_equal(w->remote_addr, addr);
	assert_int_equal(w->atomic.compare_add, compare_add);
}

static void atomic_pieces(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	(void)state;
	ibv_wr_start(ex);
	ibv_wr_atomic_cmp_swp(ex, 1, 0x20, 3, 4);
	ibv_wr_set_sge(ex, 3, 0x18, 8);
	assert_int_equal(ibv_wr_complete(ex), 0);
	is_atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, 1, 0x20, 3);
	assert_int_equal(last(qp)->atomic.swap, 4);
	ibv_wr_start(ex);
	ibv_wr_atomic_fetch_add(ex, 5, 0x60, 7);
	ibv_wr_set_sge(ex, 3, 0x18, 8);
	assert_int_equal(ibv_wr_complete(ex), 0);
	is_atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0x60, 7);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void datagram_pieces(void **state)
{
	struct ibv_ah_attr path = fix_path();
	struct ibv_ah *ah = ibv_create_ah(fix.pd, &path);
	struct ibv_qp *qp = fix_rts(IBV_QPT_UD);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	(void)state;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, 0x55, 0x66);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(last(qp)->ud.qpn, 0x55);
	assert_int_equal(last(qp)->ud.qkey, 0x66);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void the_srq_of_xrc(void **state)
{
	struct ibv_qp *qp = fix_qp(IBV_QPT_RC);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	(void)state;
	assert_non_null(ex->wr_set_xrc_srqn);
	ibv_wr_start(ex);
	ex->wr_set_xrc_srqn(ex, 7); /* without a request: an error, or ignored */
	ibv_wr_abort(ex);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* An unsupported piece is refused, and with it the whole list. */
static void refused_pieces(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct qp *q = qp_of(qp);

	(void)state;
	for (int i = 0; i < 3; i++) {
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		if (i == 2)
			q->newer.wr_flush(ex, 1, 2, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
		else if (i)
			ibv_wr_send_tso(ex, NULL, 0, 0);
		else
			q->newer.wr_atomic_write(ex, 1, 2, NULL);
		fix_errno(ibv_wr_complete(ex), EINVAL);
		assert_int_equal(q->sq.head, 0);
		assert_string_equal(fix_said(), "");
	}
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_abort(ex);
	assert_int_equal(q->sq.head, 0);
	assert_false(q->builder.active);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* In a handler that has interrupted another call, which may be any thread's: whoever
 * builds requests for this QP does not notice. */
static void not_in_a_handler(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	const struct ibv_sge sge = { 0x10, 1, 3 };
	struct ibv_data_buf buf = { fix.memory, 2 };
	struct qp *q = qp_of(qp);

	(void)state;
	for (int started = 0; started < 2; started++) {
		inside_begin(); /* as while a call is interrupted */
		if (!started)	/* the other thread starts later */
			ibv_wr_start(ex);
		abi_end();
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		inside_begin();
		fix_null(ibv_qp_to_qp_ex(qp), EDEADLK);
		if (started)
			ibv_wr_start(ex);
		ibv_wr_rdma_write(ex, 1, 2);
		ibv_wr_set_sge(ex, 3, 0x18, 8);
		ibv_wr_send_imm(ex, 1);
		ibv_wr_set_sge_list(ex, 1, &sge);
		ibv_wr_set_inline_data(ex, fix.memory, 2);
		ibv_wr_set_inline_data_list(ex, 1, &buf);
		ibv_wr_atomic_fetch_add(ex, 1, 8, 3);
		q->newer.wr_atomic_write(ex, 1, 8, fix.memory);
		q->newer.wr_flush(ex, 1, 2, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
		ibv_wr_bind_mw(ex, NULL, 1, NULL);
		fix_errno(ibv_wr_complete(ex), EDEADLK);
		ibv_wr_abort(ex);
		abi_end();
		assert_int_equal(ibv_wr_complete(ex), 0);
		assert_string_equal(fix_said(), "post");
		assert_int_equal(q->sq.head, started + 1);
		assert_int_equal(last(qp)->opcode, IBV_WR_SEND);
		assert_int_equal(last(qp)->num_sge, 0);
	}
	q->sq.tail = q->sq.head;
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* The context dies before, or while, a request is built. */
static void pieces_of_a_dead_context(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct context *ctx = &abi_of(fix.ibv)->ctx;
	struct qp *q = qp_of(qp);

	(void)state;
	for (int i = 0; i < 2; i++) {
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		ctx->dead = true;
		if (i)
			ibv_wr_abort(ex);
		else
			fix_errno(ibv_wr_complete(ex), EIO);
		assert_false(q->builder.active); /* a thread that waits for it goes on */
		ctx->dead = false;
	}
	ctx->dead = true;
	ibv_wr_start(ex);
	assert_false(q->builder.active);
	assert_int_equal(q->builder.err, -EIO);
	fix_errno(ibv_wr_complete(ex), EIO);
	/* In a forked child the lock may be held by a thread that the child does not
	 * have. */
	ctx->dead = false;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ctx->dead = true;
	abi_of(fix.ibv)->ctx.pid++;
	fix_errno(ibv_wr_complete(ex), EIO);
	assert_true(q->builder.active);
	abi_of(fix.ibv)->ctx.pid--;
	ibv_wr_abort(ex);
	ctx->dead = false;
	assert_int_equal(q->sq.head, 0);
	assert_string_equal(fix_said(), "");
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void no_pieces_unless_asked_for(void **state)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = fix.cq,
		.recv_cq = fix.cq,
		.cap = { 1, 1, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(fix.pd, &attr);

	(void)state;
	assert_null(ibv_qp_to_qp_ex(qp));
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fix_open, fix_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(pieces),
		TEST(atomic_pieces),
		TEST(datagram_pieces),
		TEST(the_srq_of_xrc),
		TEST(refused_pieces),
		TEST(not_in_a_handler),
		TEST(pieces_of_a_dead_context),
		TEST(no_pieces_unless_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
