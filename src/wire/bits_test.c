/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "wire/bits.h"

static uint64_t one_by_one(const uint8_t *at, unsigned bit, unsigned n)
{
	uint64_t v = 0;

	for (; n > 0; n--, bit++)
		v = v << 1 | (at[bit / 8] >> (7 - bit % 8) & 1);
	return v;
}

/* Wherever a field lies, it reads as its bits say, and writing it changes nothing around
 * it. */
static void every_place(void **state)
{
	const uint64_t value = 0x9d3c5a7e16f82b4dull;

	(void)state;
	for (unsigned bit = 0; bit < 64; bit++) {
		for (unsigned n = 1; n <= 64 - bit % 8; n++) {
			uint64_t want = n < 64 ? value & ((1ull << n) - 1) : value;
			uint8_t at[24] = { 0 };

			bits_put(at, bit, n, value);
			assert_int_equal(one_by_one(at, bit, n), want);
			assert_int_equal(bits_get(at, bit, n), want);
			for (unsigned i = 0; i < sizeof(at) * 8; i++)
				if (i < bit || i >= bit + n)
					assert_int_equal(one_by_one(at, i, 1), 0);
			memset(at, 0xff, sizeof(at));
			assert_int_equal(bits_get(at, bit, n), one_by_one(at, bit, n));
		}
	}
}

static void members(void **state)
{
	uint8_t m1 = 0;
	uint16_t m2 = 0;
	uint32_t m4 = 0;
	uint64_t m8 = 0;

	(void)state;
	member_set(&m1, 1, 0x81);
	member_set(&m2, 2, 0x8182);
	member_set(&m4, 4, 0x81828384);
	member_set(&m8, 8, 0x8182838485868788);
	assert_int_equal(member_get(&m1, 1), 0x81);
	assert_int_equal(member_get(&m2, 2), 0x8182);
	assert_int_equal(member_get(&m4, 4), 0x81828384);
	assert_int_equal(member_get(&m8, 8), 0x8182838485868788);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_place),
		cmocka_unit_test(members),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
