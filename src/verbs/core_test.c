/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "verbs/core.h"
#include "verbs/due.h"

NO_TSA static void a_core_begins_empty(void **state)
{
	struct core core;

	(void)state;
	assert_int_equal(core_init(&core, 17), 0);
	assert_int_equal(core.slot, 17);
	for (int i = 0; i < QPN_INDICES; i++)
		assert_null(numbers_at(&core.qps, (uint32_t)i));
	assert_true(list_empty(&core.contexts));
	assert_false(due_any(&core));
	assert_false(core.dead);
	assert_true(turn_try(&core.turn));
	turn_give(&core.turn);
	core_fini(&core);
}

static void counts_stop_at_their_limit(void **state)
{
	_Atomic uint32_t n = 0;

	(void)state;
	assert_int_equal(count_up(&n, 2), 0);
	assert_int_equal(count_up(&n, 2), 0);
	assert_int_equal(count_up(&n, 2), -ENOMEM);
	count_down(&n);
	assert_int_equal(count_up(&n, 2), 0);
	assert_int_equal(n, 2);
}

static void handles_differ(void **state)
{
	struct core core;
	uint32_t first;

	(void)state;
	assert_int_equal(core_init(&core, 1), 0);
	first = core_handle(&core);
	assert_int_not_equal(first, 0);
	assert_int_not_equal(core_handle(&core), first);
	core_fini(&core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_core_begins_empty),
		cmocka_unit_test(counts_stop_at_their_limit),
		cmocka_unit_test(handles_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
