/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "driver/placement.h"

static cpu_set_t set(uint64_t bits)
{
	cpu_set_t s;

	CPU_ZERO(&s);
	for (size_t i = 0; i < 64; i++)
		if (bits >> i & 1)
			CPU_SET(i, &s);
	return s;
}

static void place(uint64_t all, uint64_t first, uint64_t caller, uint64_t want)
{
	cpu_set_t a = set(all), f = set(first), c = set(caller), w = set(want), out;

	placement_less(&out, &a, &f, &c);
	assert_true(CPU_EQUAL(&out, &w));
}

static void the_opener_keeps_its_processors(void **state)
{
	(void)state;
	place(0xf, 0xf, 0x1, 0xe); /* the caller is pinned to one processor */
	place(0xf, 0x1, 0x1, 0xe); /* and the caller is the process's first thread */
	place(0xf, 0xf, 0x3, 0xc);
	place(0xf, 0xf, 0xf, 0xf); /* the caller is not pinned */
	place(0x4, 0x4, 0x4, 0x4); /* the process was started by taskset */
	place(0x1, 0x1, 0x2, 0x1); /* by taskset, and then pinned elsewhere */
	place(0x3, 0x3, 0xc, 0x3);
	place(0x3, 0x3, 0x6, 0x1);
	place(0x3, 0x3, 0xf, 0xf); /* by taskset, and no longer pinned */
}

static void a_process_that_has_gone_elsewhere_stays_there(void **state)
{
	(void)state;
	place(0x3, 0x8, 0x8, 0x8);
	place(0x3, 0xf, 0xf, 0xf);
	place(0x3, 0xf00, 0xf00, 0xf00);
	/* And the caller is pinned to one processor there. */
	place(0x3, 0xf00, 0x100, 0xe00);
	place(0x3, 0x100, 0x200, 0x100);
}

static void this_thread_is_not_pinned(void **state)
{
	cpu_set_t mine, got;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
	assert_int_equal(placement_choose(&got), 0);
	assert_true(CPU_EQUAL(&got, &mine));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_opener_keeps_its_processors),
		cmocka_unit_test(a_process_that_has_gone_elsewhere_stays_there),
		cmocka_unit_test(this_thread_is_not_pinned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
