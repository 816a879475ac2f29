/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "sys/clock.h"

static void silence_is_what_was_heard(void **state)
{
	struct round r = { .heard = NEVER };

	(void)state;
	assert_false(silent_until(&r, 10, 9));
	assert_true(silent_until(&r, 10, 10)); /* nobody takes input in */
	assert_false(silent_until(&r, NEVER, 10));
	r.heard = 9;
	assert_false(silent_until(&r, 11, 10));
	assert_false(r.must_hear);
	assert_false(silent_until(&r, 10, 99));
	assert_true(r.must_hear);
	r.heard = 10;
	assert_true(silent_until(&r, 10, 99));
}

static uint64_t later(void)
{
	return 77;
}

static void time_goes_on_while_packets_go_out(void **state)
{
	struct round r = { 0 };

	(void)state;
	assert_int_equal(went_out(&r, 9), 9);
	r.clock = later;
	assert_int_equal(went_out(&r, 9), 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silence_is_what_was_heard),
		cmocka_unit_test(time_goes_on_while_packets_go_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
