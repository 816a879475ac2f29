/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fault_keys.h"
#include "net/fault_spec.h"

/* Each key is there, and no line is longer than a terminal's. */
static void every_key_has_a_line(void **state)
{
	char *text = fault_keys_text(), *at = text;
	const struct fault_key *k;

	(void)state;
	assert_non_null(text);
	for (unsigned i = 0; (k = fault_key(i)); i++) {
		char want[64];

		snprintf(want, sizeof(want), "\n  %s=%s ", k->name, k->value);
		assert_non_null(strstr(text, want));
	}
	for (const char *line; (line = strsep(&at, "\n"));)
		assert_in_range(strlen(line), 0, 79);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_key_has_a_line) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
