/* SPDX-License-Identifier: BSD-2-Clause */
/* placed_test.c - which memory was written to lately. */
#include "check/placed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void by_bytes_and_time(void **state)
{
	(void)state;
	assert_false(placed_since(0, UINT64_MAX, 0));
	placed_add(1000, 100, 50);
	placed_add(5000, 0, 60);
	assert_true(placed_since(1099, 1, 50));
	assert_true(placed_since(900, 101, 0));
	assert_false(placed_since(1100, 100, 0));
	assert_false(placed_since(900, 100, 0));
	assert_false(placed_since(1000, 100, 51));
}

/* Pieces that follow each other are one range, as late as the last. */
static void a_long_write_is_one_range(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 2 * PLACED; i++)
		placed_add(1 << 20 | i * 64, 64, 100 + i);
	assert_true(placed_since(1 << 20, 1, 100 + 2 * PLACED - 1));
	assert_false(placed_since(1000, 100, 60));
	assert_true(placed_since(1000, 100, 50)); /* the one before is still there */
}

static void what_is_forgotten_may_be(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < PLACED; i++)
		placed_add(i * 128 + 64, 64, 20000 + i);
	assert_false(placed_since(0, 1, 20001));
	assert_true(placed_since(0, 1, 20000)); /* too long ago to be known */
}

static void what_is_being_written(void **state)
{
	(void)state;
	placed_now(true);
	assert_true(placed_since(0, 1, 30000));
	placed_now(false);
	assert_false(placed_since(0, 1, 30000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_bytes_and_time),
		cmocka_unit_test(a_long_write_is_one_range),
		cmocka_unit_test(what_is_forgotten_may_be),
		cmocka_unit_test(what_is_being_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
