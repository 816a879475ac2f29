/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sys/near.h"

static void letters_that_differ_are_counted(void **state)
{
	(void)state;
	assert_int_equal(near_distance("", ""), 0);
	assert_int_equal(near_distance("retry", "retry"), 0);
	assert_int_equal(near_distance("rety", "retry"), 1);
	assert_int_equal(near_distance("exe", "exc"), 1);
	assert_int_equal(near_distance("", "abc"), 3);
	assert_int_equal(near_distance("RETRY", "retry"), 0);
	assert_int_equal(near_distance("abc", ""), 3);
	assert_int_equal(near_distance("dorp", "drop"), 1);
	assert_int_equal(near_distance("rdop", "drop"), 1);
	assert_int_equal(near_distance("rdpo", "drop"), 2);
	assert_int_equal(near_distance("ab", "BA"), 1);
}

static const char *name(unsigned i)
{
	static const char *const names[] = { "drop", "delay", "qp", NULL };

	return names[i];
}

static void the_nearest_is_meant_if_it_is_near(void **state)
{
	(void)state;
	assert_string_equal(near_find("dorp", name), "drop");
	assert_string_equal(near_find("dela", name), "delay");
	assert_string_equal(near_find("qps", name), "qp");
	assert_string_equal(near_find("QP", name), "qp");
	assert_null(near_find("corrupt", name));
	assert_null(near_find("x", name));
	assert_null(near_find("dim", name));
	assert_null(near_find("log", name));
}

static void a_hint_is_a_clause_or_nothing(void **state)
{
	char hint[NEAR_HINT];

	(void)state;
	near_hint(hint, "dorp", name);
	assert_string_equal(hint, "; did you mean drop?");
	near_hint(hint, "corrupt", name);
	assert_string_equal(hint, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(letters_that_differ_are_counted),
		cmocka_unit_test(the_nearest_is_meant_if_it_is_near),
		cmocka_unit_test(a_hint_is_a_clause_or_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
