/* SPDX-License-Identifier: BSD-2-Clause */
/* The codes of timeouts and RNR timers, in time. */
#include "verbs/timeout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "sys/clock.h"
#include "verbs/core.h"
#include "verbs/qp.h"

/* The RNR timers in milliseconds, as ibv_modify_qp(3) and its rdma-core header list
 * them. */
static void the_rnr_timer_is_the_published_table(void **state)
{
	/* clang-format off */
	static const double ms[32] = {
		655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24,
		0.32, 0.48, 0.64, 0.96, 1.28, 1.92, 2.56, 3.84, 5.12, 7.68,
		10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88,
		163.84, 245.76, 327.68, 491.52,
	};
	/* clang-format on */

	(void)state;
	for (unsigned i = 0; i < 32; i++) {
		assert_true(rnr_timer_ns(i) == (uint64_t)(ms[i] * 100 + 0.5) * 10000);
		assert_true(rnr_timer_ns(i + 32) == rnr_timer_ns(i));
		if (i > 1)
			assert_true(rnr_timer_ns(i) > rnr_timer_ns(i - 1));
	}
}

/* The ACK timeout is 4.096 us * 2^code; a code that is too short for a scheduler is
 * rounded up. */
static void the_ack_timeout(void **state)
{
	struct qp qp = { 0 };

	(void)state;
	assert_true(ack_timeout_ns(&qp) == 0);
	for (uint8_t i = 1; i < 32; i++) {
		qp.attr.timeout = i;
		assert_true(ack_timeout_ns(&qp) ==
			    (i < 10 ? 4000000 : UINT64_C(4096) << i));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rnr_timer_is_the_published_table),
		cmocka_unit_test(the_ack_timeout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
