/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/due.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "verbs/core.h"
#include "verbs/qp.h"

enum { N = 4, THREADS = 3, ROUNDS = 20000 };

static struct core core;
static struct qp qp[N];

static int setup(void **state)
{
	(void)state;
	memset(&core, 0, sizeof(core));
	memset(qp, 0, sizeof(qp));
	return 0;
}

static void oldest_first_and_each_once(void **state)
{
	(void)state;
	turn_is_held(&core);
	assert_false(due_any(&core));
	assert_null(due_next(&core));
	for (int i = 0; i < N; i++) {
		due_add(&core, &qp[i]);
		due_add(&core, &qp[0]);
	}
	assert_true(due_any(&core));
	for (int i = 0; i < N; i++) {
		assert_true(due_any(&core));
		assert_ptr_equal(due_next(&core), &qp[i]);
		assert_false(atomic_load(&qp[i].sched.due));
	}
	assert_false(due_any(&core));
	assert_null(due_next(&core));
}

/* One that is added while others wait comes behind them, and none is there twice. */
static void one_may_be_added_while_others_are_served(void **state)
{
	(void)state;
	turn_is_held(&core);
	for (int i = 0; i < N; i++)
		due_add(&core, &qp[i]);
	for (int i = 0; i < 3 * N; i++) {
		struct qp *p = due_next(&core);

		assert_ptr_equal(p, &qp[i % N]);
		due_add(&core, &qp[N - 1]); /* it is due, or it is p */
		due_add(&core, p);
	}
	for (int i = 0; i < N; i++)
		assert_ptr_equal(due_next(&core), &qp[i]);
	assert_false(due_any(&core));
}

/* Wherever it is: in the stack, or among those that were taken from it. */
static void a_forgotten_one_leaves_the_others_in_order(void **state)
{
	(void)state;
	turn_is_held(&core);
	for (int gone = 0; gone < N; gone++)
		for (int taken = 0; taken <= gone; taken++) {
			for (int i = 0; i < N; i++)
				due_add(&core, &qp[i]);
			for (int i = 0; i < taken; i++) {
				assert_ptr_equal(due_next(&core), &qp[i]);
				due_add(&core, &qp[i]);
			}
			due_forget(&core, &qp[gone]);
			assert_false(atomic_load(&qp[gone].sched.due));
			for (int i = taken; i < N + taken; i++)
				if (i % N != gone)
					assert_ptr_equal(due_next(&core), &qp[i % N]);
			due_forget(&core, &qp[gone]);
			assert_null(due_next(&core));
		}
}

/* Work that exists before due_add() is seen when due_next() has returned the QP. */
static _Atomic unsigned work[N];
static unsigned seen[N];
static atomic_int running;

static void *adder(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		atomic_fetch_add_explicit(&work[i % N], 1, memory_order_relaxed);
		due_add(&core, &qp[i % N]);
	}
	atomic_fetch_sub(&running, 1);
	return NULL;
}

static void take_all(void)
{
	struct qp *p;

	turn_is_held(&core);
	while ((p = due_next(&core)))
		seen[p - qp] = atomic_load_explicit(&work[p - qp], memory_order_relaxed);
}

static void no_work_is_lost_between_threads(void **state)
{
	pthread_t t[THREADS];

	(void)state;
	atomic_store(&running, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, adder, NULL);
	while (atomic_load(&running))
		take_all();
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	take_all();
	for (int i = 0; i < N; i++)
		assert_int_equal(seen[i], THREADS * ROUNDS / N);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(oldest_first_and_each_once, setup),
		cmocka_unit_test_setup(one_may_be_added_while_others_are_served, setup),
		cmocka_unit_test_setup(a_forgotten_one_leaves_the_others_in_order, setup),
		cmocka_unit_test_setup(no_work_is_lost_between_threads, setup),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
