/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts of key=value are cut into their parts. */
#include "sys/pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char text[100], *at;

static void begin(const char *list)
{
	strcpy(text, list);
	at = text;
}

/* want NULL: there is no value. */
static void next(char sep, const char *key, const char *want)
{
	char *value;

	assert_non_null(at);
	assert_string_equal(pair_next(&at, sep, &value), key);
	if (want)
		assert_string_equal(value, want);
	else
		assert_null(value);
}

static void a_list(void **state)
{
	(void)state;
	begin("drop=0.5,tx:nth=3,urnic");
	next(',', "drop", "0.5");
	next(',', "tx:nth", "3");
	next(',', "urnic", NULL);
	assert_null(at);
}

static void a_line(void **state)
{
	(void)state;
	begin(" \tlog = info:/a b/%p \r\n");
	next('\n', "log", "info:/a b/%p");
	next('\n', "", NULL);
	assert_null(at);
}

static void what_is_empty(void **state)
{
	(void)state;
	begin(",=,a=,=b,");
	next(',', "", NULL);
	next(',', "", "");
	next(',', "a", "");
	next(',', "", "b");
	next(',', "", NULL); /* behind the last comma */
	assert_null(at);
	begin("");
	next(',', "", NULL);
	assert_null(at);
}

static void the_first_sign_counts(void **state)
{
	(void)state;
	begin("a=b=c");
	next(',', "a", "b=c");
	assert_null(at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list),
		cmocka_unit_test(a_line),
		cmocka_unit_test(what_is_empty),
		cmocka_unit_test(the_first_sign_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
