/* SPDX-License-Identifier: BSD-2-Clause */
/* cq_ex_test.c - completions that are read field by field. */
#include "check/fix.h"
#include "check/ops.h"
#include "check/queue.h"

static int nic_start(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	(void)ex, (void)attr;
	if (!fix.n)
		return ENOENT;
	fix.cq.cur = (struct cqe){ .wr_id = fix.wc[0].wr_id, .qp_num = FIX_QPN };
	fix.n--;
	return 0;
}

static int nic_next(struct ibv_cq_ex *ex)
{
	return nic_start(ex, NULL);
}

static void test_entries(void **state)
{
	struct ibv_poll_cq_attr attr = { 0 };

	(void)state;
	assert_int_equal(fix_send(1, IBV_SEND_SIGNALED), 0);
	assert_int_equal(fix_send(1, IBV_SEND_SIGNALED), 0);
	fix.wc[0].wr_id = 1;
	fix.n = 2;
	assert_int_equal(ibv_start_poll(&fix.cq.ex, &attr), 0);
	assert_int_equal(check_queue_used(&fix_qp()->sq), 1);
	assert_int_equal(ibv_next_poll(&fix.cq.ex), 0);
	assert_int_equal(check_queue_used(&fix_qp()->sq), 0);
	assert_int_equal(ibv_next_poll(&fix.cq.ex), ENOENT);
	object_gone(&fix.cq.live, LIVE_CQ);
	assert_int_equal(ibv_start_poll(&fix.cq.ex, &attr), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_entries),
	};

	fix_open("sq-overflow");
	fix.cq.ex.start_poll = nic_start;
	fix.cq.ex.next_poll = nic_next;
	ops_of_cq(&fix.cq);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
