/* SPDX-License-Identifier: BSD-2-Clause */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sys/lock.h"

enum { THREADS = 4, ROUNDS = 20000 };

static struct lock lk;
static int counter GUARDED_BY(lk);

static void *count(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		lock_take(&lk);
		counter++;
		lock_give(&lk);
	}
	return NULL;
}

static void t_excludes(void **state)
{
	pthread_t t[THREADS];

	(void)state;
	lock_init(&lk);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, count, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	lock_take(&lk);
	assert_int_equal(counter, THREADS * ROUNDS);
	lock_give(&lk);
}

NO_TSA static void t_try(void **state)
{
	(void)state;
	lock_init(&lk);
	assert_true(lock_try(&lk));
	assert_false(lock_try(&lk)); /* even the holder cannot take it again */
	assert_false(lock_is_awaited(&lk));
	assert_false(lock_wait_for(&lk, 1)); /* sleeps, and gives up */
	assert_true(lock_is_awaited(&lk));
	lock_give(&lk);
	assert_true(lock_try(&lk));
	lock_give(&lk);
}

static struct brief_lock brief;
static int briefly GUARDED_BY(brief);

static void *count_briefly(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		brief_take(&brief);
		briefly++;
		brief_give(&brief);
	}
	return NULL;
}

/* A thread that must wait long for a brief lock gets it, too. */
static void t_brief(void **state)
{
	pthread_t t[THREADS];

	(void)state;
	brief_init(&brief);
	brief_take(&brief);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, count_briefly, NULL), 0);
	for (int i = 0; i < 100; i++)
		sched_yield();
	assert_int_equal(briefly, 0);
	brief_give(&brief);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	brief_take(&brief);
	assert_int_equal(briefly, THREADS * ROUNDS);
	brief_give(&brief);
}

NO_TSA static void t_brief_try(void **state)
{
	(void)state;
	brief_init(&brief);
	assert_true(brief_try(&brief));
	assert_false(brief_try(&brief));
	brief_give(&brief);
	assert_true(brief_try(&brief));
	brief_give(&brief);
}

static struct lock_cond changed;
static int stage GUARDED_BY(lk);

/* Waits for odd stages and makes them even. */
static void *answer(void *arg)
{
	(void)arg;
	lock_take(&lk);
	for (int i = 1; i < ROUNDS; i += 2) {
		while (stage != i)
			lock_sleep(&lk, &changed);
		stage++;
		lock_changed(&changed);
	}
	lock_give(&lk);
	return NULL;
}

static void t_sleeps(void **state)
{
	pthread_t t;

	(void)state;
	lock_init(&lk);
	assert_int_equal(pthread_create(&t, NULL, answer, NULL), 0);
	lock_take(&lk);
	for (int i = 0; i < ROUNDS; i += 2) {
		while (stage != i)
			lock_sleep(&lk, &changed);
		stage++;
		lock_changed(&changed);
	}
	lock_give(&lk);
	pthread_join(t, NULL);
	lock_take(&lk);
	assert_int_equal(stage, ROUNDS);
	lock_give(&lk);
}

/* A thread that must wait long sleeps, and is woken. */
static void t_wakes(void **state)
{
	pthread_t t[THREADS];

	(void)state;
	lock_init(&lk);
	lock_take(&lk);
	counter = 0;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, count, NULL), 0);
	while (atomic_load(&lk.word) != LOCK_AWAITED)
		sched_yield();
	assert_int_equal(counter, 0);
	lock_give(&lk);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	lock_take(&lk);
	assert_int_equal(counter, THREADS * ROUNDS);
	assert_int_equal(lk.word, LOCK_HELD);
	lock_give(&lk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_excludes), cmocka_unit_test(t_try),
		cmocka_unit_test(t_sleeps),   cmocka_unit_test(t_wakes),
		cmocka_unit_test(t_brief),    cmocka_unit_test(t_brief_try),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
