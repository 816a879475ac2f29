/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/ddp.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void headers_are_as_the_diagrams_say(void **state)
{
	static const uint8_t tagged[] = "\xc1\x40\x11\x22\x33\x44"
					"\x01\x02\x03\x04\x05\x06\x07\x08";
	static const uint8_t untagged[] = "\x01\x43\x0a\x0b\x0c\x0d\0\0\0\1"
					  "\0\0\1\2\0\0\3\4";
	struct ddp t = { .tagged = true,
			 .last = true,
			 .version = 1,
			 .ulp = 0x40,
			 .stag = 0x11223344,
			 .to = 0x0102030405060708 };
	struct ddp u = { .version = 1,
			 .ulp = 0x43,
			 .ulp_word = 0x0a0b0c0d,
			 .qn = 1,
			 .msn = 0x102,
			 .mo = 0x304 };
	uint8_t at[DDP_HDR_MAX];

	(void)state;
	assert_int_equal(ddp_build(at, &t), 14);
	assert_memory_equal(at, tagged, 14);
	assert_int_equal(ddp_build(at, &u), 18);
	assert_memory_equal(at, untagged, 18);
}

static void there_and_back(void **state)
{
	uint8_t at[DDP_HDR_MAX];

	(void)state;
	for (unsigned i = 0; i < 16; i++) {
		struct ddp back, d = {
			.tagged = i & 1,
			.last = i & 2,
			.version = i >> 2 & 3,
			.ulp = (uint8_t)(i * 17),
		};
		size_t n;

		if (d.tagged) {
			d.stag = 0xfedcba98;
			d.to = 0xfedcba9876543210;
		} else {
			d.ulp_word = 0x89abcdef;
			d.qn = 0x80000001, d.msn = 0xffffffff, d.mo = 0x7fffffff;
		}
		n = ddp_build(at, &d);
		assert_int_equal(ddp_parse(&back, at, n), n);
		assert_memory_equal(&d, &back, sizeof(d));
		for (size_t less = 0; less < n; less++)
			assert_int_equal(ddp_parse(&back, at, less), -EBADMSG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers_are_as_the_diagrams_say),
		cmocka_unit_test(there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
