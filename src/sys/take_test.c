/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sys/take.h"

static const struct take_unit units[] = { { "b", 1 }, { "kb", 1000 } };

static void test_numbers(void **state)
{
	const char *s = "18446744073709551615x";
	uint64_t n;

	(void)state;
	assert_true(take_u64(&s, &n));
	assert_true(n == UINT64_MAX && *s == 'x');
	assert_false(take_u64(&s, &n));
	s = "18446744073709551616";
	assert_false(take_u64(&s, &n));
	s = "";
	assert_false(take_u64(&s, &n));
}

static void test_probabilities(void **state)
{
	static const struct {
		const char *text;
		uint32_t ppm;
	} good[] = { { "0", 0 },	  { "1", 1000000 },  { "1.", 1000000 },
		     { "0.25", 250000 },  { "0.000001", 1 }, { "0.0000009", 0 },
		     { "1.000", 1000000 } };
	static const char *const bad[] = { "", ".5", "2", "1.000001", "-1", "x" };
	uint32_t ppm;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		const char *s = good[i].text;

		assert_true(take_ppm(&s, &ppm));
		assert_int_equal(ppm, good[i].ppm);
		assert_int_equal(*s, 0);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		const char *s = bad[i];

		assert_false(take_ppm(&s, &ppm));
	}
}

static void test_amounts(void **state)
{
	const char *s = "5b,7kb", *none = "5", *other = "5mb",
		   *much = "18446744073709551kb", *most = "18446744073709552kb";
	uint64_t n;

	(void)state;
	assert_true(take_amount(&s, units, 2, &n));
	assert_int_equal(n, 5);
	assert_true(take_more(&s, ','));
	assert_false(take_more(&s, ','));
	assert_true(take_amount(&s, units, 2, &n));
	assert_int_equal(n, 7000);
	assert_int_equal(*s, 0);
	assert_false(take_amount(&none, units, 2, &n));
	assert_false(take_amount(&other, units, 2, &n));
	assert_true(take_amount(&much, units, 2, &n));
	assert_false(take_amount(&most, units, 2, &n));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_probabilities),
		cmocka_unit_test(test_amounts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
