/* SPDX-License-Identifier: BSD-2-Clause */
/* The records of the requester, and their order. */
#include "shm/fix.h"

enum { LOOK = 64 };

/* --- order --------------------------------------------------------------- */

static void fence_waits_for_what_is_read(void **state)
{
	static const enum ibv_wr_opcode first[] = {
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	struct rec rec[LOOK];

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct fix *f = pair_open(IBV_QPT_RC, NULL);
		bool fence = i & 1;

		pair_stop(f, 1);
		fix_recv(f, 8, 5000, 100);
		fix_post(f, first[i / 2], 1, 0, 8, 0);
		fix_post(f, IBV_WR_SEND, 2, 4000, 100, fence ? IBV_SEND_FENCE : 0);
		pair_run(f, 1 * MS);
		assert_int_equal(pair_look(f, 0, rec, LOOK), fence ? 1 : 2);
		pair_go(f, 1);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_wc(f, 0, 2, IBV_WC_SUCCESS);
		fix_wc(f, 1, 8, IBV_WC_SUCCESS);
		fix_close(f);
	}
}

/* A fence does not wait for WRITEs. */
static void fence_does_not_wait_for_writes(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct rec rec[LOOK];

	(void)state;
	pair_stop(f, 1);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 100, 100, IBV_SEND_FENCE);
	pair_run(f, 1 * MS);
	assert_int_equal(pair_look(f, 0, rec, LOOK), 2);
	fix_close(f);
}

static void no_more_reads_are_out_than_max_rd_atomic(void **state)
{
	const struct sim_conf c = { .pipe_only = true, .rd_atomic = 2 };
	struct fix *f = pair_open(IBV_QPT_RC, &c);
	struct rec rec[LOOK];

	(void)state;
	pair_stop(f, 1);
	for (unsigned i = 0; i < 5; i++)
		fix_post(f, i & 1 ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_RDMA_READ, i,
			 i * 8, 8, 0);
	pair_run(f, 1 * MS);
	assert_int_equal(pair_look(f, 0, rec, LOOK), 2);
	assert_string_equal(rec_name(&rec[0]), "READ_REQUEST");
	assert_string_equal(rec_name(&rec[1]), "CMP_SWAP");
	pair_go(f, 1);
	for (unsigned i = 0; i < 5; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_close(f);
}

static void reads_need_max_rd_atomic(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);

	(void)state;
	f->p.qp[0]->attr.max_rd_atomic = 0;
	fix_post(f, IBV_WR_RDMA_READ, 1, 0, 8, 0);
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_LOC_QP_OP_ERR).vendor_err,
			 VERR_LOCAL_OPERATION);
	fix_close(f);
}

/* A local error is reported in its turn, after the requests posted before it. */
static void local_error_waits_its_turn(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	uint32_t key = f->mr[0]->mkey.key;

	(void)state;
	pair_stop(f, 1);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	f->mr[0]->mkey.key ^= 0x100; /* the key that fix_post() uses */
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 100, 0);
	f->mr[0]->mkey.key = key;
	fix_post(f, IBV_WR_RDMA_WRITE, 3, 0, 100, 0);
	pair_run(f, 1 * MS);
	fix_no_wc(f, 0);
	pair_go(f, 1);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(fix_wc(f, 0, 2, IBV_WC_LOC_PROT_ERR).vendor_err, VERR_LOCAL_KEY);
	fix_wc(f, 0, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
	fix_close(f);
}

/* --- states -------------------------------------------------------------- */

static void drain(void **state)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct fix *f = pair_open(IBV_QPT_RC, NULL);

	(void)state;
	fix_recv(f, 8, 0, 3000);
	pair_stop(f, 1);
	fix_post(f, IBV_WR_SEND, 1, 0, 3000, 0);
	pair_run(f, 1000);
	assert_int_equal(qp_modify(f->p.qp[0], &a,
				   IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY, f->s->now),
			 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 100, 0);
	pair_run(f, 1 * MS);
	assert_int_equal(sim_event(f->s, 0), -1);
	pair_go(f, 1);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_quiet(f);
	pair_event(f, 0, IBV_EVENT_SQ_DRAINED);
	fix_no_wc(f, 0);
	fix_modify(f, 0, IBV_QPS_RTS);
	due_add(f->p.qp[0]->core, f->p.qp[0]);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_close(f);
}

static void an_overrun_harms_one(void **state)
{
	const struct ibv_qp_cap cap = { .max_send_wr = 16, .max_send_sge = 1 };
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct cq *small = sim_cq(f->s, 0, 2);
	struct qp *qp = sim_qp(f->s, 0, IBV_QPT_RC, small, f->p.cq[0], NULL, &cap);
	struct qp *to = sim_qp(f->s, 1, IBV_QPT_RC, f->p.cq[1], f->p.cq[1], NULL, &cap);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};

	(void)state;
	sim_bring(f->s, qp, to, &f->conf);
	sim_bring(f->s, to, qp, &f->conf);
	for (int i = 0; i < 10; i++)
		sim_send(qp, &wr);
	fix_quiet(f);
	assert_int_equal(qp->state, IBV_QPS_ERR);
	assert_int_equal(to->state, IBV_QPS_RTS);
	assert_int_equal(sim_event(f->s, 0), IBV_EVENT_CQ_ERR);
	pair_event(f, 0, IBV_EVENT_QP_FATAL);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	sim_destroy(f->s, qp);
	sim_destroy(f->s, to);
	assert_int_equal(cq_destroy(small), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fence_waits_for_what_is_read),
		cmocka_unit_test(fence_does_not_wait_for_writes),
		cmocka_unit_test(no_more_reads_are_out_than_max_rd_atomic),
		cmocka_unit_test(reads_need_max_rd_atomic),
		cmocka_unit_test(local_error_waits_its_turn),
		cmocka_unit_test(drain),
		cmocka_unit_test(an_overrun_harms_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
