/* SPDX-License-Identifier: BSD-2-Clause */
/* alike_test.c - comparing words as people write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "alike.h"

static void expect_plain(const char *from, const char *want)
{
	char to[64];

	words_plain(to, sizeof(to), from);
	assert_string_equal(to, want);
}

static void case_and_punctuation_go(void **state)
{
	(void)state;
	expect_plain("IBV_WC_RETRY_EXC_ERR (12)", "ibv wc retry exc err 12");
	expect_plain("  transport--retry,, counter ", "transport retry counter");
	expect_plain("", "");
	expect_plain(" ... ", "");
	expect_plain("\xff"
		     "a",
		     "a");
}

/* A minus before a number is its sign; between two words it is dropped. */
static void signs_stay(void **state)
{
	(void)state;
	expect_plain("-98", "-98");
	expect_plain("error: -110", "error -110");
	expect_plain("errno=-98,", "errno -98");
	expect_plain("1024-2048", "1024 2048");
	expect_plain("rx-3", "rx 3");
	expect_plain("- 5 --5 -x", "5 -5 x");
}

static void texts_are_cut(void **state)
{
	char to[6];

	(void)state;
	words_plain(to, sizeof(to), "abcdefgh");
	assert_in_range(strnlen(to, sizeof(to)), 1, sizeof(to) - 1);
	words_plain(to, sizeof(to), "a b c d e");
	assert_in_range(strnlen(to, sizeof(to)), 1, sizeof(to) - 1);
}

static void whole_words_are_found(void **state)
{
	(void)state;
	assert_string_equal(words_after("vendor err 5", "vendor err"), "5");
	assert_string_equal(words_after("vendor", "vendor"), "");
	assert_null(words_after("vendors 5", "vendor"));
	assert_null(words_after("vendor", "vendor err"));
	assert_string_equal(words_within("a wc status 12", "status"), "12");
	assert_null(words_within("wcstatus 12", "status"));
	assert_null(words_within("", "status"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(case_and_punctuation_go),
		cmocka_unit_test(signs_stay),
		cmocka_unit_test(texts_are_cut),
		cmocka_unit_test(whole_words_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
