/* SPDX-License-Identifier: BSD-2-Clause */
/* wr_test.c - requests that are built piece by piece. */
#include "check/fix.h"
#include "check/ops.h"
#include "check/queue.h"

static int nic_complete(struct ibv_qp_ex *ex)
{
	(void)ex;
	return fix.rc;
}

static unsigned nic_calls;

static void nic_nothing(struct ibv_qp_ex *ex)
{
	(void)ex;
	nic_calls++;
}

static void nic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	(void)ex, (void)rkey, (void)addr;
	nic_calls++;
}

static void nic_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	(void)ex, (void)lkey, (void)addr, (void)length;
	nic_calls++;
}

static void build(uint64_t wr_id)
{
	struct ibv_qp_ex *ex = &fix.qp.ex;

	ex->wr_id = wr_id;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, 2, 0x2000);
	ibv_wr_set_sge(ex, 1, 0x1000, 64);
}

static void test_complete(void **state)
{
	const struct check_wr *w;

	(void)state;
	ibv_wr_start(&fix.qp.ex);
	build(5);
	build(6);
	assert_null(check_queue_find(&fix_qp()->sq, 5, true));
	assert_int_equal(ibv_wr_complete(&fix.qp.ex), 0);
	w = check_queue_find(&fix_qp()->sq, 5, true);
	assert_non_null(w);
	assert_int_equal(w->opcode, IBV_WR_RDMA_WRITE);
	assert_int_equal(w->rkey, 2);
	assert_int_equal(w->length, 64);
	assert_int_equal(w->sge[0].lkey, 1);
	fix_reap(5, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
	fix_reap(6, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
	assert_int_equal(check_queue_used(&fix_qp()->sq), 0);
}

static void test_refused_and_aborted(void **state)
{
	(void)state;
	ibv_wr_start(&fix.qp.ex);
	build(5);
	fix.rc = EINVAL;
	assert_int_equal(ibv_wr_complete(&fix.qp.ex), EINVAL);
	assert_int_equal(check_queue_used(&fix_qp()->sq), 0);
	fix.rc = 0;
	ibv_wr_start(&fix.qp.ex);
	build(5);
	ibv_wr_abort(&fix.qp.ex);
	assert_int_equal(check_queue_used(&fix_qp()->sq), 0);
}

/* Its memory is kept, and its rings are freed. */
static void test_destroyed(void **state)
{
	(void)state;
	object_gone(&fix.qp.live, LIVE_QP);
	nic_calls = 0;
	assert_true(ops_begin()); /* a handler has interrupted a check */
	FIX_FINDS_NOTHING(ibv_wr_start(&fix.qp.ex));
	ops_end();
	FIX_FINDS("use-after-destroy", ibv_wr_start(&fix.qp.ex));
	build(5);
	ibv_wr_abort(&fix.qp.ex);
	assert_int_equal(ibv_wr_complete(&fix.qp.ex), EINVAL);
	assert_int_equal(nic_calls, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_complete),
		cmocka_unit_test(test_refused_and_aborted),
		cmocka_unit_test(test_destroyed), /* last */
	};

	fix_open("sq-overflow,use-after-destroy");
	fix.qp.send_ops = IBV_QP_EX_WITH_RDMA_WRITE;
	fix.qp.ex.wr_start = fix.qp.ex.wr_abort = nic_nothing;
	fix.qp.ex.wr_complete = nic_complete;
	fix.qp.ex.wr_rdma_write = nic_write;
	fix.qp.ex.wr_set_sge = nic_sge;
	ops_of_qp(&fix.qp);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
