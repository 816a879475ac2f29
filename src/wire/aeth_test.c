/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/aeth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void syndromes_seen_on_the_wire(void **state)
{
	(void)state;
	assert_int_equal(aeth_syndrome(AETH_ACK, AETH_NO_CREDITS), 0x1f);
	assert_int_equal(aeth_syndrome(AETH_NAK, NAK_PSN_SEQUENCE), 0x60);
	assert_int_equal(aeth_syndrome(AETH_NAK, NAK_REMOTE_ACCESS), 0x62);
	assert_int_equal(aeth_syndrome(AETH_RNR_NAK, 12), 0x2c);
}

static void encoding_and_decoding_agree(void **state)
{
	(void)state;
	for (unsigned t = AETH_ACK; t <= AETH_NAK; t++) {
		for (unsigned v = 0; v < 32; v++) {
			uint8_t s = aeth_syndrome((enum aeth_type)t, v);

			assert_int_equal(aeth_type(s), t);
			assert_int_equal(aeth_value(s), v);
			assert_int_equal(s & 0x80, 0);
		}
	}
}

static void what_is_reserved_is_not_valid(void **state)
{
	(void)state;
	for (unsigned s = 0; s < 256; s++)
		assert_int_equal(aeth_valid((uint8_t)s),
				 s < 0x40 || (s >= 0x60 && s <= 0x64));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(syndromes_seen_on_the_wire),
		cmocka_unit_test(encoding_and_decoding_agree),
		cmocka_unit_test(what_is_reserved_is_not_valid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
