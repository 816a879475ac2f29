/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows: bound, written through, and invalidated by either side. */
#include "shm/fix.h"

static uint32_t bound(struct fix *f, struct mw *mw, struct mr *mr)
{
	uint32_t rkey = (mw->ibv.rkey & 0xffffff00) | ((mw->ibv.rkey + 1) & 0xff);
	struct ibv_send_wr wr = {
		.wr_id = 5,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { .mw = &mw->ibv,
			     .rkey = rkey,
			     .bind_info = { &mr->ibv, (uintptr_t)f->mem[1], 4096,
					    IBV_ACCESS_REMOTE_WRITE } },
	};

	sim_send(f->p.qp[1], &wr);
	fix_wc(f, 1, 5, IBV_WC_SUCCESS);
	return rkey;
}

static void write_with(struct fix *f, uint32_t rkey, enum ibv_wc_status status)
{
	struct ibv_sge sge = sim_sge(f->mr[0], 0, 100);
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)f->mem[1], rkey },
	};

	sim_send(f->p.qp[0], &wr);
	fix_wc(f, 0, 1, status);
}

static void send_with_invalidate(void **state)
{
	struct sim_conf ways[] = { { .pipe_only = true }, { .pipe_only = false } };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct fix *f = pair_open(IBV_QPT_RC, &ways[i]);
		struct mr *mr =
			sim_mr(f->s, 1, f->mem[1], 8192, FIX_ALL | IBV_ACCESS_MW_BIND);
		struct ibv_send_wr wr = { .wr_id = 2,
					  .opcode = IBV_WR_SEND_WITH_INV,
					  .send_flags = IBV_SEND_SIGNALED };
		struct ibv_wc wc;
		struct mw *mw;

		assert_int_equal(mw_alloc(f->s->node[1].pd, IBV_MW_TYPE_2, &mw), 0);
		wr.invalidate_rkey = bound(f, mw, mr);
		write_with(f, wr.invalidate_rkey, IBV_WC_SUCCESS);
		fix_same(f, 0, 100);
		fix_recv(f, 9, 5000, 10);
		fix_recv(f, 10, 5000, 10);
		sim_send(f->p.qp[0], &wr);
		wc = fix_wc(f, 1, 9, IBV_WC_SUCCESS);
		assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
		assert_int_equal(wc.invalidated_rkey, wr.invalidate_rkey);
		fix_wc(f, 0, 2, IBV_WC_SUCCESS);
		if (i) {
			write_with(f, wr.invalidate_rkey, IBV_WC_REM_ACCESS_ERR);
		} else { /* nothing is left to invalidate */
			sim_send(f->p.qp[0], &wr);
			fix_wc(f, 0, 2, IBV_WC_RETRY_EXC_ERR);
			fix_wc(f, 1, 10, IBV_WC_REM_INV_REQ_ERR);
		}
		assert_int_equal(mw_dealloc(mw), 0);
		assert_int_equal(mr_dereg(mr), 0);
		fix_close(f);
	}
}

/* A local invalidate waits for the requests that were posted before it. */
static void local_invalidate_waits_its_turn(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct mr *mr = sim_mr(f->s, 1, f->mem[1], 8192, FIX_ALL | IBV_ACCESS_MW_BIND);
	struct ibv_send_wr wr = { .wr_id = 6,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };
	struct mw *mw;
	uint32_t rkey;

	(void)state;
	assert_int_equal(mw_alloc(f->s->node[1].pd, IBV_MW_TYPE_2, &mw), 0);
	rkey = bound(f, mw, mr);
	pair_stop(f, 0);
	sim_send(f->p.qp[1], &wr);
	wr.wr_id = 7;
	wr.opcode = IBV_WR_LOCAL_INV;
	wr.invalidate_rkey = rkey;
	sim_send(f->p.qp[1], &wr);
	pair_run(f, 1000);
	assert_true(mw->mkey.valid);
	pair_go(f, 0);
	fix_wc(f, 1, 6, IBV_WC_SUCCESS);
	fix_wc(f, 1, 7, IBV_WC_SUCCESS);
	assert_false(mw->mkey.valid);
	sim_send(f->p.qp[1], &wr); /* the window is not bound */
	fix_wc(f, 1, 7, IBV_WC_MW_BIND_ERR);
	assert_int_equal(mw_dealloc(mw), 0);
	assert_int_equal(mr_dereg(mr), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(send_with_invalidate),
		cmocka_unit_test(local_invalidate_waits_its_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
