/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sys/live.h"

static const char ctx_a, ctx_b;

static bool is_of(const struct live *l, enum live_kind kind, const void *owner)
{
	const void *got = NULL;

	return live_find(l, kind, &got) && got == owner;
}

static void lives_until_deleted(void **state)
{
	struct live l;
	const void *owner;

	(void)state;
	memset(&l, 0xee, sizeof(l));
	assert_false(live_find(&l, LIVE_PD, &owner));
	assert_false(live_find(NULL, LIVE_PD, &owner));
	live_add(&l, LIVE_PD, &ctx_a);
	assert_true(is_of(&l, LIVE_PD, &ctx_a));
	assert_false(live_find(&l, LIVE_QP, &owner));
	live_del(&l);
	assert_false(live_find(&l, LIVE_PD, &owner));
	live_del(&l);
}

/* Freed memory is not read: AddressSanitizer would report it. */
static void freed_memory_is_not_read(void **state)
{
	struct live *l = malloc(sizeof(*l));
	/* Hides from the compiler that it was freed */
	volatile uintptr_t at = (uintptr_t)l;
	const void *owner;

	(void)state;
	live_add(l, LIVE_QP, &ctx_a);
	live_del(l);
	free(l);
	assert_false(live_find((struct live *)at, LIVE_QP, &owner));
	assert_false(live_find((struct live *)(uintptr_t)8, LIVE_QP, &owner));
	assert_false(live_find((struct live *)UINTPTR_MAX, LIVE_QP, &owner));
}

static void memory_at_rest_says_that_nothing_lives(void **state)
{
	enum { ALL = 200 };
	struct live *l[ALL], *again = NULL;
	unsigned resting = 0;

	(void)state;
	for (unsigned i = 0; i < ALL && !again; i++, resting++) {
		l[i] = malloc(sizeof(*l[i]));
		live_add(l[i], LIVE_AH, &ctx_a);
		assert_true(live_is(l[i], LIVE_AH));
		live_del(l[i]);
		live_rest(l[i]);
		assert_false(live_is(l[i], LIVE_AH));
		again = live_rested();
	}
	assert_ptr_equal(again, l[0]);
	assert_in_range(resting, 16, ALL - 1);
	assert_null(live_rested());
	live_rest(again);
	assert_ptr_equal(live_rested(), l[1]);
	free(l[1]);
}

enum { MANY = 5000 };

static unsigned length(const struct live *l)
{
	unsigned n = 0;

	for (; l; l = l->next)
		n++;
	return n;
}

static void many(void **state)
{
	struct live *l = calloc(MANY, sizeof(*l)), *left[LIVE_KINDS] = { NULL };
	const void *owner;

	(void)state;
	assert_non_null(l);
	for (unsigned i = 0; i < MANY; i++)
		live_add(&l[i], LIVE_MR, i % 3 ? &ctx_a : &ctx_b);
	for (unsigned i = 0; i < MANY; i += 2)
		live_del(&l[i]);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(is_of(&l[i], LIVE_MR, i % 3 ? &ctx_a : &ctx_b), i % 2);
	live_take(&ctx_b, left);
	assert_int_equal(length(left[LIVE_MR]), MANY / 6);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(live_find(&l[i], LIVE_MR, &owner), i % 2 && i % 3);
	live_take(&ctx_a, left);
	assert_int_equal(length(left[LIVE_MR]), MANY / 2);
	assert_null(left[LIVE_PD]);
	for (unsigned i = 0; i < MANY; i++)
		assert_false(live_find(&l[i], LIVE_MR, &owner));
	free(l);
}

static void *come_and_go(void *arg)
{
	struct live l[64];

	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 64; i++)
			live_add(&l[i], LIVE_AH, arg);
		for (int i = 0; i < 64; i++)
			assert_true(is_of(&l[i], LIVE_AH, arg));
		for (int i = 0; i < 64; i++)
			live_del(&l[i]);
	}
	return NULL;
}

static void threads(void **state)
{
	static char owner[4];
	pthread_t t[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, come_and_go, &owner[i]), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

static void names(void **state)
{
	(void)state;
	for (int k = LIVE_NONE; k <= LIVE_QP; k++)
		assert_non_null(live_name((enum live_kind)k));
}

static void note(struct live *l, void *arg)
{
	struct live **seen = arg;

	for (int i = 0; i < 2; i++)
		if (seen[i] == l)
			seen[i] = NULL;
}

static void show(enum live_kind kind, struct live **seen)
{
	uint64_t at = 0;

	while (live_next(kind, &at, 1, note, seen))
		;
}

static void all_of_a_kind_are_shown(void **state)
{
	struct live qp[2], pd, *want[2] = { &qp[0], &qp[1] }, *only[2] = { &pd, &qp[0] };

	(void)state;
	live_add(&qp[0], LIVE_QP, NULL);
	live_add(&qp[1], LIVE_QP, NULL);
	live_add(&pd, LIVE_PD, NULL);
	show(LIVE_QP, want);
	assert_null(want[0]);
	assert_null(want[1]);
	live_del(&qp[0]);
	show(LIVE_QP, only);
	assert_ptr_equal(only[0], &pd);
	assert_ptr_equal(only[1], &qp[0]);
	live_del(&qp[1]);
	live_del(&pd);
}

enum { ALL_MANY = 4 * MANY };

static unsigned times[MANY];
static struct live *many_of;

static void count_it(struct live *l, void *arg)
{
	(void)arg;
	if (l >= many_of && l < many_of + MANY)
		times[l - many_of]++;
}

/* The table grows, and objects go, while it is walked. */
static void what_stays_is_shown_once(void **state)
{
	struct live *l = calloc(ALL_MANY, sizeof(*l));
	unsigned added = MANY, gone = 1;
	uint64_t at = 0;

	(void)state;
	assert_non_null(l);
	many_of = l;
	memset(times, 0, sizeof(times));
	for (unsigned i = 0; i < MANY; i++)
		live_add(&l[i], i % 2 ? LIVE_MR : LIVE_QP, &ctx_a);
	while (live_next(LIVE_MR, &at, 16, count_it, NULL)) {
		for (unsigned i = 0; i < 64 && added < ALL_MANY; i++)
			live_add(&l[added++], LIVE_MR, &ctx_a);
		if (gone < MANY)
			live_del(&l[gone]);
		gone += 10;
	}
	assert_int_equal(added, ALL_MANY);
	for (unsigned i = 0; i < MANY; i++)
		assert_true(times[i] <= i % 2 && (times[i] == i % 2 || i % 10 == 1));
	for (unsigned i = 0; i < ALL_MANY; i++)
		live_del(&l[i]);
	free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lives_until_deleted),
		cmocka_unit_test(freed_memory_is_not_read),
		cmocka_unit_test(memory_at_rest_says_that_nothing_lives),
		cmocka_unit_test(many),
		cmocka_unit_test(threads),
		cmocka_unit_test(names),
		cmocka_unit_test(all_of_a_kind_are_shown),
		cmocka_unit_test(what_stays_is_shown_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
