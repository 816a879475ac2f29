/* SPDX-License-Identifier: BSD-2-Clause */
/* poison_test.c - fields of completions with an error. */
#include "check/fix.h"

static void test_fields(void **state)
{
	struct ibv_wc wc;

	(void)state;
	fix_recv(1);
	wc = fix_reap(1, IBV_WC_RECV, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 64);
	fix_recv(1);
	wc = fix_reap(1, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.qp_num, FIX_QPN);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.byte_len, 0x5a5a5a5a);
	assert_int_equal(wc.opcode & IBV_WC_RECV, 0);
}

static void test_length(void **state)
{
	struct ibv_sge sge = { 0x1000, 0x5a5a5a5a, 1 };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	(void)state;
	FIX_FINDS("wc-trusted", ibv_post_recv(&fix.qp.ex.qp_base, &wr, &bad));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_length),
	};

	fix_open("wc-trusted");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
