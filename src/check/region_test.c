/* SPDX-License-Identifier: BSD-2-Clause */
/* region_test.c - from a key to memory. */
#include "check/region.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "verbs/mr.h"

enum { KEY = 0xabcdef01, AT = 0x10000, BASE = 0x500, LEN = 0x1000 };

static struct mr mr = {
	.mkey = { .key = KEY, .base = BASE, .length = LEN, .host = (uint8_t *)AT },
};
static struct check_object object = { .live = &mr.live, .kind = LIVE_MR };

static void is_found_while_it_exists(void **state)
{
	(void)state;
	assert_int_equal(region_at(KEY, BASE, 1), 0);
	region_made(&object);
	region_made(&object); /* for a second part */
	assert_int_equal(region_at(KEY, BASE + 5, LEN - 5), AT + 5);
	assert_int_equal(region_at(KEY, BASE + 5, LEN - 4), 0);
	assert_int_equal(region_at(KEY, BASE - 1, 1), 0);
	assert_int_equal(region_at(KEY + 1, BASE, 1), 0);
	assert_true(region_has(AT + LEN - 1));
	assert_false(region_has(AT + LEN));
	assert_false(region_has(AT - 1));
	region_gone(&object);
	region_gone(&object);
	assert_int_equal(region_at(KEY, BASE, 1), 0);
	assert_false(region_has(AT));
}

/* ibv_rereg_mr() keeps the key. */
static void is_read_anew(void **state)
{
	(void)state;
	region_made(&object);
	mr.mkey.host += LEN;
	assert_int_equal(region_at(KEY, BASE, 1), AT + LEN);
	mr.mkey.moving = true;
	assert_int_equal(region_at(KEY, BASE, 1), 0);
	mr.mkey.moving = false;
	mr.mkey.is_null = true;
	assert_int_equal(region_at(KEY, BASE, 1), 0);
	mr.mkey.is_null = false;
	mr.mkey.host -= LEN;
	region_gone(&object);
}

static void of_other_objects_nothing(void **state)
{
	(void)state;
	object.kind = LIVE_PD;
	region_made(&object);
	object.kind = LIVE_MR;
	mr.imported = true;
	region_made(&object);
	assert_int_equal(region_at(KEY, BASE, 1), 0);
	mr.imported = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_found_while_it_exists),
		cmocka_unit_test(is_read_anew),
		cmocka_unit_test(of_other_objects_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
