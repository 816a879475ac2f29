/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/qp_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

enum { TO_INIT = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS };

static void an_arrow_needs_all_it_requires_and_takes_no_more(void **state)
{
	(void)state;
	assert_int_equal(qp_check_modify(&qp_arrows_ib, IBV_QPT_RC, IBV_QPS_RESET,
					 IBV_QPS_INIT, IBV_QP_STATE | TO_INIT),
			 0);
	assert_int_equal(qp_check_modify(&qp_arrows_ib, IBV_QPT_RC, IBV_QPS_RESET,
					 IBV_QPS_INIT, TO_INIT & ~IBV_QP_PORT),
			 -EINVAL);
	assert_int_equal(qp_check_modify(&qp_arrows_ib, IBV_QPT_RC, IBV_QPS_RESET,
					 IBV_QPS_INIT, TO_INIT | IBV_QP_QKEY),
			 -EINVAL);
	assert_int_equal(qp_check_modify(&qp_arrows_ib, IBV_QPT_RC, IBV_QPS_RESET,
					 IBV_QPS_RTS, 0),
			 -EINVAL);
	assert_int_equal(qp_check_modify(&qp_arrows_ib, IBV_QPT_RC, IBV_QPS_SQE,
					 IBV_QPS_RTS, 0),
			 -EINVAL);
	assert_int_equal(qp_check_modify(&qp_arrows_ib, IBV_QPT_UD, IBV_QPS_SQE,
					 IBV_QPS_RTS, 0),
			 0);
}

static void reset_and_err_are_always_in_reach(void **state)
{
	(void)state;
	for (int s = IBV_QPS_RESET; s <= IBV_QPS_ERR; s++) {
		enum ibv_qp_state from = (enum ibv_qp_state)s;

		assert_int_equal(qp_check_modify(&qp_arrows_ib, IBV_QPT_UC, from,
						 IBV_QPS_RESET, IBV_QP_STATE),
				 0);
		assert_int_equal(qp_check_modify(&qp_arrows_ib, IBV_QPT_UC, from,
						 IBV_QPS_RESET,
						 IBV_QP_STATE | IBV_QP_QKEY),
				 -EINVAL);
		assert_int_equal(qp_check_modify(&qp_arrows_ib, IBV_QPT_UC, from,
						 IBV_QPS_ERR, IBV_QP_STATE),
				 s == IBV_QPS_RESET ? -EINVAL : 0);
	}
}

/* Only RESET can follow ERR, SQE cannot be set, and values that are no states are
 * refused. */
static void what_no_arrow_allows_is_refused(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

	(void)state;
	for (int t = 0; t < 3; t++) {
		for (int s = IBV_QPS_INIT; s <= IBV_QPS_SQE; s++) {
			enum ibv_qp_state st = (enum ibv_qp_state)s;

			assert_int_equal(qp_check_modify(&qp_arrows_ib, types[t],
							 IBV_QPS_ERR, st, 0),
					 -EINVAL);
			assert_int_equal(qp_check_modify(&qp_arrows_ib, types[t], st,
							 IBV_QPS_SQE, 0),
					 -EINVAL);
		}
		assert_int_equal(qp_check_modify(&qp_arrows_ib, types[t], IBV_QPS_RTS,
						 IBV_QPS_UNKNOWN, 0),
				 -EINVAL);
		assert_int_equal(qp_check_modify(&qp_arrows_ib, types[t], IBV_QPS_RTS,
						 (enum ibv_qp_state)99, 0),
				 -EINVAL);
	}
	assert_int_equal(qp_check_modify(&qp_arrows_ib, IBV_QPT_DRIVER, IBV_QPS_RESET,
					 IBV_QPS_INIT, IBV_QP_PORT),
			 -EINVAL);
	assert_int_equal(qp_check_modify(&qp_arrows_ib, IBV_QPT_RAW_PACKET, IBV_QPS_RESET,
					 IBV_QPS_INIT, IBV_QP_PORT),
			 0);
	assert_int_equal(qp_check_modify(&qp_arrows_ib, IBV_QPT_RAW_PACKET, IBV_QPS_RTR,
					 IBV_QPS_RTS, IBV_QP_RATE_LIMIT),
			 0);
	assert_int_equal(qp_check_modify(&qp_arrows_ib, IBV_QPT_UD, IBV_QPS_RTR,
					 IBV_QPS_RTS, IBV_QP_SQ_PSN | IBV_QP_RATE_LIMIT),
			 -EINVAL);
}

static void iwarp_has_arrows_of_its_own(void **state)
{
	const int rtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

	(void)state;
	assert_int_equal(qp_check_modify(&qp_arrows_iwarp, IBV_QPT_RC, IBV_QPS_RESET,
					 IBV_QPS_INIT, 0),
			 0);
	assert_int_equal(qp_check_modify(&qp_arrows_iwarp, IBV_QPT_RC, IBV_QPS_RESET,
					 IBV_QPS_INIT,
					 IBV_QP_PORT | IBV_QP_PKEY_INDEX |
						 IBV_QP_ACCESS_FLAGS),
			 0);
	assert_int_equal(qp_check_modify(&qp_arrows_iwarp, IBV_QPT_RC, IBV_QPS_INIT,
					 IBV_QPS_RTR, 0),
			 -EINVAL);
	assert_int_equal(qp_check_modify(&qp_arrows_iwarp, IBV_QPT_RC, IBV_QPS_INIT,
					 IBV_QPS_RTR, rtr),
			 -EINVAL);
	assert_int_equal(qp_check_modify(&qp_arrows_iwarp, IBV_QPT_RC, IBV_QPS_RESET,
					 IBV_QPS_RTS, 0),
			 -EINVAL);
	/* The transport, not the table, checks whether there is a connection. */
	assert_int_equal(qp_check_modify(&qp_arrows_iwarp, IBV_QPT_RC, IBV_QPS_INIT,
					 IBV_QPS_RTS, 0),
			 0);
	assert_int_equal(qp_check_modify(&qp_arrows_iwarp, IBV_QPT_RC, IBV_QPS_INIT,
					 IBV_QPS_RTS, IBV_QP_SQ_PSN),
			 -EINVAL);
	assert_int_equal(qp_check_modify(&qp_arrows_iwarp, IBV_QPT_RC, IBV_QPS_RTS,
					 IBV_QPS_SQD, 0),
			 0);
	assert_int_equal(qp_check_modify(&qp_arrows_iwarp, IBV_QPT_RC, IBV_QPS_SQD,
					 IBV_QPS_RTS, 0),
			 -EINVAL);
	assert_int_equal(qp_check_modify(&qp_arrows_iwarp, IBV_QPT_RC, IBV_QPS_RTS,
					 IBV_QPS_SQE, 0),
			 -EINVAL);
	assert_int_equal(qp_check_modify(&qp_arrows_iwarp, IBV_QPT_RC, IBV_QPS_SQD,
					 IBV_QPS_ERR, 0),
			 0);
	assert_int_equal(qp_check_modify(&qp_arrows_iwarp, IBV_QPT_RC, IBV_QPS_ERR,
					 IBV_QPS_RESET, 0),
			 0);
}

static void a_query_tells_what_the_way_here_has_set(void **state)
{
	int m;

	(void)state;
	m = qp_query_mask(IBV_QPT_RC, IBV_QPS_RESET);
	assert_int_equal(m, IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_CAP);
	m = qp_query_mask(IBV_QPT_RC, IBV_QPS_INIT);
	assert_true(m & IBV_QP_PORT);
	assert_false(m & (IBV_QP_AV | IBV_QP_SQ_PSN | IBV_QP_QKEY));
	m = qp_query_mask(IBV_QPT_RC, IBV_QPS_RTR);
	assert_true(m & IBV_QP_AV && m & IBV_QP_RQ_PSN && m & IBV_QP_MIN_RNR_TIMER);
	assert_false(m & (IBV_QP_SQ_PSN | IBV_QP_TIMEOUT));
	m = qp_query_mask(IBV_QPT_RC, IBV_QPS_RTS);
	assert_true(m & IBV_QP_SQ_PSN && m & IBV_QP_TIMEOUT && m & IBV_QP_AV);
	assert_false(m & IBV_QP_EN_SQD_ASYNC_NOTIFY);
	assert_int_equal(m, qp_query_mask(IBV_QPT_RC, IBV_QPS_ERR));
	m = qp_query_mask(IBV_QPT_RC, IBV_QPS_SQD);
	assert_true(m & IBV_QP_EN_SQD_ASYNC_NOTIFY);
	m = qp_query_mask(IBV_QPT_UD, IBV_QPS_SQE);
	assert_true(m & IBV_QP_QKEY && m & IBV_QP_SQ_PSN);
	assert_false(m & (IBV_QP_AV | IBV_QP_RETRY_CNT | IBV_QP_ACCESS_FLAGS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_arrow_needs_all_it_requires_and_takes_no_more),
		cmocka_unit_test(reset_and_err_are_always_in_reach),
		cmocka_unit_test(what_no_arrow_allows_is_refused),
		cmocka_unit_test(iwarp_has_arrows_of_its_own),
		cmocka_unit_test(a_query_tells_what_the_way_here_has_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
