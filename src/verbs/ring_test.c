/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void small_and_large_are_zero_and_ours(void **state)
{
	static const size_t sizes[] = { 1, 4095, 4096, 4097, 1 << 20 };

	(void)state;
	for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		for (int round = 0; round < 3; round++) {
			uint8_t *r = ring_alloc(NULL, sizes[s], 3);

			assert_non_null(r);
			for (size_t i = 0; i < sizes[s] * 3; i++) {
				assert_int_equal(r[i], 0);
				r[i] = 0xff;
			}
			ring_free(NULL, r, sizes[s], 3);
		}
		ring_free(NULL, NULL, sizes[s], 3);
	}
}

static void what_cannot_be_had_is_null(void **state)
{
	(void)state;
	assert_null(ring_alloc(NULL, (size_t)1 << 60, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_and_large_are_zero_and_ours),
		cmocka_unit_test(what_cannot_be_had_is_null),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
