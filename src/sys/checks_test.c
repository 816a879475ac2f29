/* SPDX-License-Identifier: BSD-2-Clause */
/* checks_test.c - lists of checks. */
#include "sys/checks.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static uint64_t parsed(const char *list)
{
	char wrong[CHECK_WORD];
	uint64_t set = 0;

	assert_int_equal(checks_parse(list, &set, wrong), 0);
	return set;
}

static void test_lists(void **state)
{
	const uint64_t all = parsed("all"), some = parsed("default");

	(void)state;
	assert_int_equal(all | check_bit(CHECK_BUFFER_TOUCHED),
			 CHECKS == 64 ? UINT64_MAX : ((uint64_t)1 << CHECKS) - 1);
	assert_int_equal(all & check_bit(CHECK_BUFFER_TOUCHED), 0);
	assert_int_equal(some & ~all, 0);
	assert_int_equal(parsed(""), 0);
	assert_int_equal(parsed("off"), 0);
	assert_int_equal(parsed("sq-overflow"), check_bit(CHECK_SQ_OVERFLOW));
	assert_int_equal(parsed("sq-overflow,sq-unsignaled"),
			 check_bit(CHECK_SQ_OVERFLOW) | check_bit(CHECK_SQ_UNSIGNALED));
	assert_int_equal(parsed("all,-sq-overflow"), all & ~check_bit(CHECK_SQ_OVERFLOW));
	assert_int_equal(parsed("-sq-overflow"), some & ~check_bit(CHECK_SQ_OVERFLOW));
	assert_int_equal(parsed("sq-overflow,-all"), 0);
}

static void test_wrong_words(void **state)
{
	static const char *const lists[] = { "sq-overflo", "all,sq-overflo",
					     "-sq-overflo", "sq-overflo,all" };
	char wrong[CHECK_WORD];
	uint64_t set;

	(void)state;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		assert_int_equal(checks_parse(lists[i], &set, wrong), -EINVAL);
		assert_string_equal(wrong, "sq-overflo");
	}
	assert_int_equal(checks_parse("all,,", &set, wrong), -EINVAL);
	assert_string_equal(wrong, "");
}

static void test_each_row_says_all(void **state)
{
	(void)state;
	for (int i = 0; i < CHECKS; i++) {
		assert_true(strlen(check_rows[i].name) < 32);
		assert_true(check_rows[i].what[0] && check_rows[i].remedy[0] &&
			    check_rows[i].example[0]);
		assert_int_equal(parsed(check_rows[i].name), check_bit((enum check)i));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_wrong_words),
		cmocka_unit_test(test_each_row_says_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
