/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "verbs/verr.h"

static void every_code_says_what_and_what_to_do(void **state)
{
	static const unsigned codes[] = {
#define VERR(code, name, what, todo) code,
#include "verbs/verr.def"
#undef VERR
	};

	(void)state;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		const struct verr_text *t = verr_text(codes[i]);

		/* Codes are never renumbered, and have no gaps. */
		assert_int_equal(codes[i], i);
		assert_non_null(t);
		assert_true(strlen(t->name) > 0 && strlen(t->what) > 0);
		assert_true(i == VERR_NONE || strlen(t->todo) > 0);
	}
	assert_string_equal(verr_text(VERR_LOCAL_KEY)->name, "LOCAL_KEY");
}

static void other_codes_have_no_text(void **state)
{
	(void)state;
	assert_null(verr_text(1000));
	assert_null(verr_text(UINT32_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_code_says_what_and_what_to_do),
		cmocka_unit_test(other_codes_have_no_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
