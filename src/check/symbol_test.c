/* SPDX-License-Identifier: BSD-2-Clause */
/* symbol_test.c - functions by address. */
#include "check/symbol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

#include <cmocka.h>

static void test_static_function(void **state)
{
	struct symbol s;

	(void)state;
	assert_true(symbol_find((const char *)(uintptr_t)test_static_function + 1, &s));
	assert_string_equal(s.function, "test_static_function");
	assert_string_equal(s.object, "check_symbol_test");
	assert_int_equal(s.offset, 1);
	assert_true(s.address < 64 << 20);
}

static void test_library(void **state)
{
	struct symbol s;

	(void)state;
	assert_true(symbol_object((const void *)(uintptr_t)getauxval, &s));
	assert_int_equal(strncmp(s.object, "libc.so", 7), 0);
	assert_string_equal(s.function, "");
}

static void test_no_object(void **state)
{
	struct symbol s;

	(void)state;
	assert_false(symbol_find((const void *)8, &s));
	assert_false(symbol_object(&s, &s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_static_function),
		cmocka_unit_test(test_library),
		cmocka_unit_test(test_no_object),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
