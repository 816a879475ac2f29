/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "sys/mark.h"

#define LINE "cq {handle=7}: {entries=} of {the_size={a b}, {} {=} {A=}"

static void values_stay(void **state)
{
	char text[] = LINE "\nmore {a=1}\n";
	static const char want[] = "cq 7:  of {a b, {} {=} {A=}\nmore 1\n";

	(void)state;
	assert_int_equal(mark_drop(text), strlen(want));
	assert_string_equal(text, want);
	assert_int_equal(mark_drop(text), strlen(want));
	assert_string_equal(text, want);
}

static void values_have_names(void **state)
{
	static const char *const want[][2] = {
		{ "handle", "7" },
		{ "entries", "" },
		{ "the_size", "{a b" },
	};
	const char *name, *value;
	char line[] = LINE, *at = line;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_true(mark_next(&at, &name, &value));
		assert_string_equal(name, want[i][0]);
		assert_string_equal(value, want[i][1]);
	}
	assert_false(mark_next(&at, &name, &value));
}

/* What is not whole is no value. */
static void broken_marks(void **state)
{
	static const char *const broken[] = { "",    "{",   "{a", "{a=",
					      "{a}", "a=}", "}",  "{a=b" };
	const char *name, *value;

	(void)state;
	for (unsigned i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		char line[8], *at = line;

		strcpy(line, broken[i]);
		assert_false(mark_next(&at, &name, &value));
		assert_string_equal(line, broken[i]);
		assert_in_range(mark_drop(line), 0, strlen(broken[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_stay),
		cmocka_unit_test(values_have_names),
		cmocka_unit_test(broken_marks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
