/* SPDX-License-Identifier: BSD-2-Clause */
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { RATES = 25 };

static void known_ones(void **state)
{
	(void)state;
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_2_5_GBPS), 1);
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_40_GBPS), 16);
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_1200_GBPS), 480);
	assert_int_equal(ibv_rate_to_mbps(IBV_RATE_14_GBPS), 14062);
	assert_int_equal(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
	assert_int_equal(mbps_to_ibv_rate(850000), IBV_RATE_800_GBPS);
	assert_int_equal(mult_to_ibv_rate(11), IBV_RATE_28_GBPS);
}

static void what_is_no_rate(void **state)
{
	(void)state;
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_MAX), -1);
	assert_int_equal(ibv_rate_to_mbps(IBV_RATE_MAX), -1);
	assert_int_equal(ibv_rate_to_mult((enum ibv_rate)RATES), -1);
	assert_int_equal(ibv_rate_to_mbps((enum ibv_rate) - 1), -1);
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_14_GBPS), -1);
	assert_int_equal(mult_to_ibv_rate(0), IBV_RATE_MAX);
	assert_int_equal(mult_to_ibv_rate(-1), IBV_RATE_MAX);
	assert_int_equal(mbps_to_ibv_rate(2501), IBV_RATE_MAX);
}

/* Every rate is found again by its number; 23 have one number, 15 of them two. */
static void there_and_back(void **state)
{
	int mults = 0, mbps = 0;

	(void)state;
	for (int i = 0; i < RATES; i++) {
		enum ibv_rate rate = (enum ibv_rate)i;

		if (ibv_rate_to_mult(rate) != -1) {
			assert_int_equal(mult_to_ibv_rate(ibv_rate_to_mult(rate)), i);
			mults++;
		}
		if (ibv_rate_to_mbps(rate) != -1) {
			assert_int_equal(mbps_to_ibv_rate(ibv_rate_to_mbps(rate)), i);
			mbps++;
		}
	}
	assert_int_equal(mbps, 23);
	assert_int_equal(mults, 15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_ones),
		cmocka_unit_test(what_is_no_rate),
		cmocka_unit_test(there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
