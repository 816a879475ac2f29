/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>
#include <unistd.h>

#include "sys/turn.h"

static struct turn turn;
static _Atomic int stage;

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

NO_TSA static void t_try(void **state)
{
	(void)state;
	turn_init(&turn);
	assert_true(turn_try(&turn));
	assert_false(turn_try(&turn));	/* a signal handler of the holder */
	turn_give(&turn);
	assert_true(turn_try(&turn));
	turn_give(&turn);
}

static void *taker(void *arg)
{
	(void)arg;
	turn_take(&turn);
	stage = 1;
	turn_give(&turn);
	return NULL;
}

/* While somebody waits, tries fail even if the turn happens to be free. */
NO_TSA static void t_taker_first(void **state)
{
	pthread_t t;

	(void)state;
	turn_init(&turn);
	turn.takers = 1;
	assert_false(turn_try(&turn));
	turn.takers = 0;

	assert_true(turn_try(&turn));
	stage = 0;
	pthread_create(&t, NULL, taker, NULL);
	while (turn.takers == 0)
		nap();
	turn_give(&turn);
	while (!turn_try(&turn))
		;
	assert_int_equal(stage, 1);
	turn_give(&turn);
	pthread_join(t, NULL);
	assert_int_equal(turn.takers, 0);
}

static void *passer(void *arg)
{
	(void)arg;
	stage = 1;
	turn_pass(&turn);
	stage = 2;
	return NULL;
}

NO_TSA static void t_pass_waits(void **state)
{
	pthread_t t;

	(void)state;
	turn_init(&turn);
	stage = 0;
	turn_take(&turn);
	pthread_create(&t, NULL, passer, NULL);
	while (stage == 0 || turn.takers == 0)
		nap();
	for (int i = 0; i < 5; i++)
		nap();
	assert_int_equal(stage, 1);	/* still inside */
	turn_give(&turn);
	pthread_join(t, NULL);
	assert_int_equal(stage, 2);
}

static void *cancelled(void *arg)
{
	(void)arg;
	turn_take(&turn);
	stage = 1;
	while (stage == 1)
		nap();			/* a cancellation point */
	stage = 3;
	turn_give(&turn);
	pthread_testcancel();
	return NULL;
}

/* pthread_cancel() takes the holder only when it has given the turn. */
NO_TSA static void t_cancel_waits(void **state)
{
	void *how;
	pthread_t t;

	(void)state;
	turn_init(&turn);
	stage = 0;
	pthread_create(&t, NULL, cancelled, NULL);
	while (stage == 0)
		nap();
	pthread_cancel(t);
	for (int i = 0; i < 5; i++)
		nap();
	stage = 2;
	pthread_join(t, &how);
	assert_ptr_equal(how, PTHREAD_CANCELED);
	assert_int_equal(stage, 3);
	assert_true(turn_try(&turn));
	turn_give(&turn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_try),
		cmocka_unit_test(t_taker_first),
		cmocka_unit_test(t_pass_waits),
		cmocka_unit_test(t_cancel_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
