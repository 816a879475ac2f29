/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "nic/placement.h"

static cpu_set_t set(uint64_t bits)
{
	cpu_set_t s;

	CPU_ZERO(&s);
	for (size_t i = 0; i < 64; i++)
		if (bits >> i & 1)
			CPU_SET(i, &s);
	return s;
}

static void place(uint64_t all, uint64_t allowed, uint64_t caller, uint64_t want)
{
	cpu_set_t a = set(all), m = set(allowed), c = set(caller), w = set(want), out;

	placement_less(&out, &a, &m, &c);
	assert_true(CPU_EQUAL(&out, &w));
}

static void the_opener_keeps_its_processors(void **state)
{
	(void)state;
	place(0xf, 0xf, 0x1, 0xe); /* pinned to one */
	place(0xf, 0xf, 0x3, 0xc);
	place(0xf, 0xf, 0xf, 0xf); /* not pinned */
	place(0x4, 0xf, 0x4, 0x4); /* started by taskset */
	place(0x1, 0xf, 0x2, 0x1); /* ... and pinned elsewhere */
	place(0x3, 0xf, 0xc, 0x3);
	place(0x3, 0xf, 0x6, 0x1);
	place(0x3, 0xf, 0xf, 0xf); /* ... and not pinned any more */
}

static void a_cpuset_is_the_measure_when_the_process_was_moved(void **state)
{
	(void)state;
	place(0x3, 0xf00, 0xf00, 0xf00);
	place(0x3, 0xf00, 0x100, 0xe00); /* and pinned there */
	place(0x3, 0x100, 0x100, 0x100);
	place(0x3, 0x102, 0x102, 0x102);
	place(0xf, 0x3, 0x1, 0x2); /* it has become smaller */
	place(0xf, 0x3, 0x3, 0x3);
}

/* The thread of a process that started everywhere and then pinned this thread. */
static void *moves(void *arg)
{
	assert_int_equal(placement_move(arg), 0);
	assert_int_equal(sched_getaffinity(0, sizeof(cpu_set_t), arg), 0);
	return NULL;
}

static cpu_set_t moved_from(const cpu_set_t *caller)
{
	cpu_set_t got = *caller;
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, moves, &got), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	return got;
}

static void a_thread_goes_where_its_maker_is_not(void **state)
{
	cpu_set_t mine, one, both, got;

	(void)state;
	assert_int_equal(placement_note(&mine), 0);
	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	got = moved_from(&one);
	CPU_AND(&both, &one, &got);
	assert_true(CPU_COUNT(&mine) == 1 || CPU_COUNT(&both) == 0);
	assert_true(CPU_COUNT(&mine) == 1 || CPU_COUNT(&got) == CPU_COUNT(&mine) - 1);
	assert_int_equal(sched_setaffinity(0, sizeof(mine), &mine), 0);
}

static void this_thread_is_not_pinned(void **state)
{
	cpu_set_t mine, got;

	(void)state;
	assert_int_equal(placement_note(&mine), 0);
	got = moved_from(&mine);
	assert_true(CPU_EQUAL(&got, &mine));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_opener_keeps_its_processors),
		cmocka_unit_test(a_cpuset_is_the_measure_when_the_process_was_moved),
		cmocka_unit_test(a_thread_goes_where_its_maker_is_not),
		cmocka_unit_test(this_thread_is_not_pinned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
