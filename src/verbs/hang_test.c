/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "verbs/hang.h"

#define MS 1000000ull

static void what_goes_on_for_a_second_is_seen_once(void **state)
{
	const uint64_t s = 1000 * MS;
	struct hang h = { 0 };

	(void)state;
	assert_false(hang_seen(&h, 7, s));
	assert_false(hang_seen(&h, 7, s + 900 * MS));
	assert_true(hang_seen(&h, 7, 2 * s));
	assert_false(hang_seen(&h, 7, 4 * s));
	/* at another PSN it begins anew, and is not said a second time */
	assert_false(hang_seen(&h, 8, 4 * s));
	assert_false(hang_seen(&h, 8, 5 * s));
	assert_false(hang_seen(&h, 8, 6 * s));
}

static void a_pause_is_no_hang(void **state)
{
	const uint64_t s = 1000 * MS;
	struct hang h = { 0 };

	(void)state;
	assert_false(hang_seen(&h, 0, s));
	assert_false(hang_seen(&h, 0, 2 * s)); /* twice is not always */
	assert_false(hang_seen(&h, 0, 7 * s));
	assert_false(hang_seen(&h, 0, 7 * s + 1));
	assert_false(hang_seen(&h, 0, 8 * s - 1));
	assert_true(hang_seen(&h, 0, 8 * s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_goes_on_for_a_second_is_seen_once),
		cmocka_unit_test(a_pause_is_no_hang),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
