/* SPDX-License-Identifier: BSD-2-Clause */
#include "sys/secret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

static void words_differ(void **state)
{
	struct secret a = { 0 }, b = { 0 };
	unsigned same = 0;

	(void)state;
	for (unsigned i = 0; i < 3 * SECRET_WORDS; i++)
		same += secret_word(&a) == secret_word(&b);
	assert_true(same < 3);
}

static void numbers_are_below_their_limit(void **state)
{
	struct secret s = { 0 };
	unsigned count[7] = { 0 };

	(void)state;
	for (unsigned i = 0; i < 7000; i++) {
		uint32_t n = secret_below(&s, 7);

		assert_true(n < 7);
		count[n]++;
	}
	for (unsigned i = 0; i < 7; i++)
		assert_in_range(count[i], 700, 1300);
	assert_int_equal(secret_below(&s, 1), 0);
}

static void a_shuffle_loses_nothing(void **state)
{
	struct secret s = { 0 };
	uint16_t v[500];
	bool seen[500] = { false };
	unsigned stayed = 0;

	(void)state;
	for (uint16_t i = 0; i < 500; i++)
		v[i] = i;
	secret_shuffle(&s, v, 500);
	for (uint16_t i = 0; i < 500; i++) {
		assert_false(seen[v[i]]);
		seen[v[i]] = true;
		stayed += v[i] == i;
	}
	assert_true(stayed < 20);
	secret_shuffle(&s, v, 1);
	secret_shuffle(&s, v, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_differ),
		cmocka_unit_test(numbers_are_below_their_limit),
		cmocka_unit_test(a_shuffle_loses_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
