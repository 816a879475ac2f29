/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/numbers.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

enum { ALL = QPN_INDICES - QPN_FIRST };

static uint32_t add(struct numbers *n, void *object)
{
	uint32_t index;

	assert_int_equal(numbers_next(n, &index), 0);
	assert_null(numbers_at(n, index));
	numbers_add(n, object);
	assert_ptr_equal(numbers_at(n, index), object);
	return index;
}

static void each_index_is_given_once(void **state)
{
	static bool used[QPN_INDICES];
	struct numbers n = { 0 };
	uint32_t index;

	(void)state;
	assert_int_equal(numbers_init(&n), 0);
	for (int i = 0; i < ALL; i++) {
		index = add(&n, used + i);
		assert_in_range(index, QPN_FIRST, QPN_INDICES - 1);
		assert_false(used[index]);
		used[index] = true;
	}
	assert_int_equal(numbers_count(&n), ALL);
	assert_int_equal(numbers_next(&n, &index), -ENOMEM);
	numbers_del(&n, 77);
	assert_null(numbers_at(&n, 77));
	assert_int_equal(add(&n, used), 77);
	numbers_fini(&n);
}

static void an_index_rests(void **state)
{
	struct numbers n = { 0 };
	uint32_t first, others = 0;

	(void)state;
	assert_int_equal(numbers_init(&n), 0);
	first = add(&n, &n);
	numbers_del(&n, first);
	for (uint32_t i = 0; i != first; others++) {
		i = add(&n, &n);
		numbers_del(&n, i);
	}
	assert_int_equal(others, ALL);
	assert_int_equal(numbers_count(&n), 0);
	numbers_fini(&n);
}

/* Asking changes nothing: what asked may fail before it adds its object. */
static void asking_takes_nothing(void **state)
{
	struct numbers n = { 0 };
	uint32_t one, same;

	(void)state;
	assert_int_equal(numbers_init(&n), 0);
	assert_int_equal(numbers_next(&n, &one), 0);
	assert_int_equal(numbers_next(&n, &same), 0);
	assert_int_equal(one, same);
	assert_int_equal(numbers_count(&n), 0);
	numbers_fini(&n);
}

static void an_index_cannot_be_guessed(void **state)
{
	struct numbers n[2] = { { 0 }, { 0 } };
	unsigned near = 0, same = 0;
	uint32_t before = 0;

	(void)state;
	assert_int_equal(numbers_init(&n[0]), 0);
	assert_int_equal(numbers_init(&n[1]), 0);
	for (int i = 0; i < 1000; i++) {
		uint32_t index = add(&n[0], n);

		near += index - before + 2 < 5;
		same += index == add(&n[1], n);
		before = index;
	}
	assert_true(near < 10);
	assert_true(same < 10);
	numbers_fini(&n[0]);
	numbers_fini(&n[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_index_is_given_once),
		cmocka_unit_test(an_index_rests),
		cmocka_unit_test(asking_takes_nothing),
		cmocka_unit_test(an_index_cannot_be_guessed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
