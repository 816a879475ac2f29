/* SPDX-License-Identifier: BSD-2-Clause */
/* cqs_test.c - completion queues that are too small. */
#include "check/fix.h"

static void test_overrun(void **state)
{
	struct ibv_cq *cq = (struct ibv_cq *)&fix.cq.ex;
	struct ibv_wc wc;

	(void)state;
	FIX_FINDS_NOTHING(ibv_poll_cq(cq, 1, &wc));
	fix.cq.overrun = true;
	FIX_FINDS("cq-overrun", ibv_poll_cq(cq, 1, &wc));
	for (int i = 0; i < 1000; i++)
		ibv_poll_cq(cq, 1, &wc);
	LOGGED(fix.log, "error", assert_int_equal(report_totals(), 1));
	fix.cq.overrun = false;
}

/* The queue pair of fix_open() has 4 places in each queue. */
static void test_too_small(void **state)
{
	(void)state;
	object_gone(&fix.qp.live, LIVE_QP);
	fix.cq.ex.cqe = 8;
	FIX_FINDS_NOTHING(object_made(&fix.qp.live, LIVE_QP));
	object_gone(&fix.qp.live, LIVE_QP);
	fix.cq.ex.cqe = 7;
	FIX_FINDS("cq-too-small", object_made(&fix.qp.live, LIVE_QP));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_overrun),
		cmocka_unit_test(test_too_small),
	};

	fix_open("cq-overrun,cq-too-small");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
