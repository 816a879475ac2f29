/* SPDX-License-Identifier: BSD-2-Clause */
/* states_test.c - queue pairs in ERR, and at their end. */
#include "check/fix.h"

static void set_state(enum ibv_qp_state to)
{
	const struct ibv_qp_attr attr = { .qp_state = to };

	checks->modified(&fix.qp.live, &attr, IBV_QP_STATE);
}

/* One request may mark the end of the flush. */
static void test_posts_in_error(void **state)
{
	(void)state;
	set_state(IBV_QPS_ERR);
	FIX_FINDS_NOTHING(fix_send(1, 0));
	FIX_FINDS_NOTHING(fix_recv(1));
	FIX_FINDS("post-in-error", fix_send(2, 0));
	set_state(IBV_QPS_RESET);
	FIX_FINDS_NOTHING(fix_send(1, 0));
	FIX_FINDS_NOTHING(fix_send(2, 0));
	set_state(IBV_QPS_RESET);
}

static void test_after_an_error(void **state)
{
	(void)state;
	fix_send(1, 0);
	fix_reap(1, IBV_WC_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR);
	fix_recv(1);
	FIX_FINDS("post-in-error", fix_recv(2));
	set_state(IBV_QPS_RESET);
}

static void test_not_drained(void **state)
{
	(void)state;
	fix_recv(1);
	FIX_FINDS_NOTHING(checks->destroys(&fix.qp.live, LIVE_QP));
	set_state(IBV_QPS_ERR);
	FIX_FINDS("flush-not-drained", checks->destroys(&fix.qp.live, LIVE_QP));
	set_state(IBV_QPS_RESET);
}

static void test_busy(void **state)
{
	(void)state;
	fix_send(1, IBV_SEND_SIGNALED);
	FIX_FINDS_NOTHING(checks->destroys(&fix.qp.live, LIVE_QP)); /* done, not polled */
	fix.qp.sq.head = 1;
	FIX_FINDS("destroy-busy", checks->destroys(&fix.qp.live, LIVE_QP));
	fix_reap(1, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
	FIX_FINDS_NOTHING(checks->destroys(&fix.qp.live, LIVE_QP));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_posts_in_error),
		cmocka_unit_test(test_after_an_error),
		cmocka_unit_test(test_not_drained),
		cmocka_unit_test(test_busy),
	};

	fix_open("post-in-error,flush-not-drained,destroy-busy");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
