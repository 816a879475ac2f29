/* SPDX-License-Identifier: BSD-2-Clause */
/* sends_test.c - full send queues. */
#include "check/fix.h"

static void fill(unsigned signaled)
{
	for (unsigned i = 0; i < FIX_DEPTH; i++)
		assert_int_equal(fix_send(i, i < signaled ? IBV_SEND_SIGNALED : 0), 0);
	fix.rc = ENOMEM;
}

static void empty(void)
{
	fix.rc = 0;
	for (unsigned i = 0; i < FIX_DEPTH; i++)
		fix_reap(i, IBV_WC_RDMA_WRITE, IBV_WC_WR_FLUSH_ERR);
}

static void test_full(void **state)
{
	(void)state;
	fill(1);
	FIX_FINDS("sq-overflow", fix_send(9, 0));
	assert_non_null(strstr(fix.log, "all 4 places"));
	assert_non_null(strstr(fix.log, "1 by signalled requests"));
	empty();
}

static void test_full_and_none_signaled(void **state)
{
	(void)state;
	fill(0);
	FIX_FINDS("sq-unsignaled", fix_send(9, IBV_SEND_SIGNALED));
	empty();
}

static void test_refused_for_other_reasons(void **state)
{
	(void)state;
	fix.rc = EINVAL;
	FIX_LOG(fix_send(9, 0));
	assert_null(strstr(fix.log, "check sq-"));
	fix.rc = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_full_and_none_signaled),
		cmocka_unit_test(test_refused_for_other_reasons),
	};

	fix_open("sq-overflow,sq-unsignaled");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
