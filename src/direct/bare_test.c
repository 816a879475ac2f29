/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of finding Go's runtime. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "direct/bare.h"

static size_t put(uint8_t *at, const char *name, uint32_t len, uint32_t desc)
{
	const uint32_t head[] = { len, desc, 4 };

	memcpy(at, head, sizeof(head));
	memcpy(at + sizeof(head), name, len);
	return sizeof(head) + ((len + 3) & ~3U) + ((desc + 3) & ~3U);
}

static void the_note_is_found(void **state)
{
	uint8_t notes[128] = { 0 };
	size_t n;

	(void)state;
	n = put(notes, "GNU", 4, 20);
	assert_false(bare_notes(notes, n));
	n += put(notes + n, "Go\0", 4, 5);
	assert_true(bare_notes(notes, n));
	assert_false(bare_notes(notes, n - 9));
	assert_false(bare_notes(notes, 0));
}

static void notes_that_are_too_long_are_none(void **state)
{
	uint8_t notes[16] = { 0 };

	(void)state;
	put(notes, "Go\0", 4, UINT32_MAX);
	assert_false(bare_notes(notes, sizeof(notes)));
}

static void this_program_is_not_gos(void **state)
{
	(void)state;
	assert_false(bare_calls());
	assert_false(bare_calls());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_note_is_found),
		cmocka_unit_test(notes_that_are_too_long_are_none),
		cmocka_unit_test(this_program_is_not_gos),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
