/* SPDX-License-Identifier: BSD-2-Clause */
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
	lock_fini(&lk);
}

NO_TSA static void t_try(void **state)
{
	(void)state;
	lock_init(&lk);
	assert_true(lock_try(&lk));
	assert_false(lock_try(&lk));	/* the holder gets "no" too */
	lock_give(&lk);
	assert_true(lock_try(&lk));
	lock_give(&lk);
	lock_fini(&lk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_excludes),
		cmocka_unit_test(t_try),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
