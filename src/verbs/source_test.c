/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/source.h"

#include "verbs/device.h"
#include "verbs/qp_fixture.h"

enum { NOW = 5 };

static void what_is_read(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		bool atomic, read;
	} row[] = {
		{ IBV_WR_SEND, false, false },
		{ IBV_WR_RDMA_WRITE, false, false },
		{ IBV_WR_RDMA_READ, false, true },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, true, true },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, true, true },
		{ IBV_WR_ATOMIC_WRITE, false, true },
		{ IBV_WR_FLUSH, false, true },
		{ IBV_WR_LOCAL_INV, false, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		const struct swqe w = { .opcode = (uint8_t)row[i].opcode };

		assert_int_equal(wqe_is_atomic(&w), row[i].atomic);
		assert_int_equal(wqe_is_read(&w), row[i].read);
	}
}

static void lengths(void **state)
{
	struct swqe w = { .opcode = IBV_WR_SEND };

	(void)state;
	assert_false(wqe_too_long(&w));
	w.length = caps.max_msg;
	assert_false(wqe_too_long(&w));
	w.length++;
	assert_true(wqe_too_long(&w));
	w.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	w.length = 7;
	assert_true(wqe_too_long(&w));
	w.length = 8;
	assert_false(wqe_too_long(&w));
}

/* --- its memory ------------------------------------------------------------ */

static char memory[64];

static void post(struct qp *qp, enum ibv_wr_opcode opcode, uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)memory, 8, lkey };
	struct ibv_send_wr wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(qp_post_send(qp, &wr, &bad), 0);
}

static void resolves(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);
	struct wqe_memory m = { .resolved = false };
	struct mr *rw, *ro;

	(void)state;
	fix_bring(qp, IBV_QPS_RTS);
	assert_int_equal(mr_reg(f->pd, memory, 64, (uintptr_t)memory,
				IBV_ACCESS_LOCAL_WRITE, &rw),
			 0);
	assert_int_equal(mr_reg(f->pd, memory, 64, (uintptr_t)memory, 0, &ro), 0);
	post(qp, IBV_WR_RDMA_WRITE, ro->ibv.lkey);
	/* Fails: READ data cannot be written to a read-only region. */
	post(qp, IBV_WR_RDMA_READ, ro->ibv.lkey);
	post(qp, IBV_WR_RDMA_READ, rw->ibv.lkey);
	assert_int_equal(wqe_resolve(qp, 1, &m), -EACCES);
	assert_false(m.resolved);
	assert_int_equal(wqe_resolve(qp, 0, &m), 0);
	assert_ptr_equal(m.span.v[0].host, memory);
	assert_int_equal(m.span.v[0].len, 8);
	m.span.v[0].host = NULL; /* must not be resolved a second time */
	assert_int_equal(wqe_resolve(qp, 0, &m), 0);
	assert_null(m.span.v[0].host);
	assert_int_equal(wqe_resolve(qp, 2, &m), 0);
	assert_ptr_equal(m.span.v[0].host, memory);
	assert_int_equal(wqe_resolve(qp, 1, &m), -EACCES);
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(mr_dereg(rw), 0);
	assert_int_equal(mr_dereg(ro), 0);
	fix_close(f);
}

/* --- requests for which no packet is sent ------------------------------------ */

static void works(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);
	struct ibv_mw *mw;
	struct mw *window;
	struct mr *mr;
	struct ibv_send_wr bind = { .wr_id = 1,
				    .opcode = IBV_WR_BIND_MW,
				    .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr inv = { .wr_id = 2, .opcode = IBV_WR_LOCAL_INV }, *bad;
	enum ibv_wc_status status;
	enum verr verr = VERR_NONE;
	struct ibv_wc wc;

	(void)state;
	fix_bring(qp, IBV_QPS_RTS);
	assert_int_equal(mr_reg(f->pd, memory, 64, (uintptr_t)memory,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, &mr),
			 0);
	assert_int_equal(mw_alloc(f->pd, IBV_MW_TYPE_2, &window), 0);
	mw = &window->ibv;
	bind.bind_mw.mw = mw;
	bind.bind_mw.rkey = inv.invalidate_rkey = ibv_inc_rkey(mw->rkey);
	bind.bind_mw.bind_info = (struct ibv_mw_bind_info){ &mr->ibv, (uintptr_t)memory,
							    8, IBV_ACCESS_REMOTE_READ };
	assert_int_equal(qp_post_send(qp, &bind, &bad), 0);
	assert_int_equal(qp_post_send(qp, &inv, &bad), 0);
	inv.wr_id = 3; /* invalidates the same key a second time */
	assert_int_equal(qp_post_send(qp, &inv, &bad), 0);
	qp_is_held(qp);
	assert_int_equal(wqe_local_work(qp, 1, &status, &verr, NOW), WQE_WAITS);
	assert_int_equal(cq_poll(f->scq, 1, &wc), 0);
	assert_int_equal(wqe_local_work(qp, 0, &status, &verr, NOW), WQE_DONE);
	fix_wc(f->scq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wqe_local_work(qp, 1, &status, &verr, NOW), WQE_DONE);
	assert_int_equal(wqe_local_work(qp, 2, &status, &verr, NOW), WQE_FAILED);
	assert_int_equal(status, IBV_WC_MW_BIND_ERR);
	assert_int_equal(verr, VERR_INVALIDATE);
	/* The failed request is left to the transport. */
	assert_int_equal(qp->sq.tail, 2);
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(mw_dealloc(window), 0);
	assert_int_equal(mr_dereg(mr), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_read),
		cmocka_unit_test(lengths),
		cmocka_unit_test(resolves),
		cmocka_unit_test(works),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
