/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/wr_op.h"

#include "verbs/flush.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void holes_and_strangers_are_no_operations(void **state)
{
	(void)state;
	assert_null(wr_op(IBV_WR_TSO));
	assert_null(wr_op(IBV_WR_DRIVER1));
	assert_null(wr_op(UINT32_MAX));
	assert_non_null(wr_op(IBV_WR_RDMA_WRITE));
	assert_string_equal(wr_op(IBV_WR_SEND)->name, "SEND");
}

static void each_service_carries_what_it_carries(void **state)
{
	unsigned rc = 0, uc = 0, ud = 0, iw = 0;

	(void)state;
	for (unsigned i = 0; i < 64; i++) {
		const struct wr_op *op = wr_op(i);

		if (!op)
			continue;
		rc |= (unsigned)wr_op_allowed(op, IBV_QPT_RC) << i;
		uc |= (unsigned)wr_op_allowed(op, IBV_QPT_UC) << i;
		ud |= (unsigned)wr_op_allowed(op, IBV_QPT_UD) << i;
		iw |= (unsigned)wr_op_allowed(op, WR_TYPE_IWARP) << i;
		assert_int_equal(wr_op_allowed(op, IBV_QPT_RAW_PACKET), i == IBV_WR_SEND);
	}
	assert_int_equal(rc, 0x3ff | 1 << IBV_WR_ATOMIC_WRITE | 1 << IBV_WR_FLUSH);
	assert_int_equal(iw, 0x3ff & ~(1u << IBV_WR_SEND_WITH_IMM));
	assert_int_equal(ud, 1 << IBV_WR_SEND | 1 << IBV_WR_SEND_WITH_IMM);
	assert_int_equal(uc, ud | 1 << IBV_WR_RDMA_WRITE |
				     1 << IBV_WR_RDMA_WRITE_WITH_IMM |
				     1 << IBV_WR_LOCAL_INV | 1 << IBV_WR_BIND_MW);
	assert_int_equal(wr_send_ops(IBV_QPT_UD),
			 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
	assert_int_equal(wr_claims(IBV_QPT_RC),
			 DEVICE_ATOMIC_WRITE | DEVICE_FLUSH_GLOBAL);
	assert_int_equal(wr_claims(WR_TYPE_IWARP), 0);
}

static void the_sets_are_of_the_traits(void **state)
{
	(void)state;
	assert_int_equal(WR_ATOMICS, 1 << IBV_WR_ATOMIC_CMP_AND_SWP |
					     1 << IBV_WR_ATOMIC_FETCH_AND_ADD);
	assert_int_equal(WR_EMPTIES, 1 << IBV_WR_ATOMIC_WRITE | 1 << IBV_WR_FLUSH);
	assert_int_equal(WR_ANSWERED, WR_ATOMICS | WR_EMPTIES | 1 << IBV_WR_RDMA_READ);
	assert_int_equal(WR_AT_ONCES,
			 WR_ATOMICS | 1 << IBV_WR_RDMA_WRITE | 1 << IBV_WR_RDMA_READ);
}

static void completions_name_the_operation(void **state)
{
	(void)state;
	assert_int_equal(wr_op(IBV_WR_SEND_WITH_INV)->wc, IBV_WC_SEND);
	assert_int_equal(wr_op(IBV_WR_RDMA_WRITE_WITH_IMM)->wc, IBV_WC_RDMA_WRITE);
	assert_int_equal(wr_op(IBV_WR_ATOMIC_CMP_AND_SWP)->wc, IBV_WC_COMP_SWAP);
	assert_int_equal(wr_op(IBV_WR_ATOMIC_FETCH_AND_ADD)->wc, IBV_WC_FETCH_ADD);
	assert_int_equal(wr_op(IBV_WR_LOCAL_INV)->wc, IBV_WC_LOCAL_INV);
	assert_int_equal(wr_op(IBV_WR_BIND_MW)->wc, IBV_WC_BIND_MW);
	assert_int_equal(wr_op(IBV_WR_RDMA_READ)->wc, IBV_WC_RDMA_READ);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holes_and_strangers_are_no_operations),
		cmocka_unit_test(each_service_carries_what_it_carries),
		cmocka_unit_test(the_sets_are_of_the_traits),
		cmocka_unit_test(completions_name_the_operation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
