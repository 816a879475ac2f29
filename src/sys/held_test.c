/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that can be cancelled only while they sleep. */
#include "sys/held.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sys/cancel_fix.h"

static void *sleeps_and_goes_on(void *arg)
{
	struct held self;

	pthread_cleanup_push(forget_frames, NULL);
	held_begin();
	held_begin();
	self = held_sleep();
	held_wake(self);
	held_end();
	pthread_cancel(pthread_self());
	pthread_testcancel(); /* still inside such a call */
	*(bool *)arg = true;
	held_end();
	pthread_testcancel();
	*(bool *)arg = false;
	pthread_cleanup_pop(0);
	return NULL;
}

static void calls_are_nested(void **state)
{
	bool there = false;
	pthread_t t;
	void *end;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, sleeps_and_goes_on, &there), 0);
	assert_int_equal(pthread_join(t, &end), 0);
	assert_ptr_equal(end, PTHREAD_CANCELED);
	assert_true(there);
}

/* A call between held_begin() and held_end() is cancelled in its sleep; one that began
 * with cancel_hold() is not cancelled even there. */
static void *sleeps(void *whole)
{
	struct held self;

	pthread_cleanup_push(forget_frames, NULL);
	if (*(bool *)whole)
		cancel_hold();
	held_begin();
	pthread_cancel(pthread_self());
	self = held_sleep();
	pthread_testcancel();
	held_wake(self);
	*(bool *)whole = false;
	held_end();
	pthread_cleanup_pop(0);
	return NULL;
}

static void in_its_sleep(void **state)
{
	bool whole = true;
	pthread_t t;
	void *end;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, sleeps, &whole), 0);
	assert_int_equal(pthread_join(t, &end), 0);
	assert_null(end);
	assert_false(whole);
	assert_int_equal(pthread_create(&t, NULL, sleeps, &whole), 0);
	assert_int_equal(pthread_join(t, &end), 0);
	assert_ptr_equal(end, PTHREAD_CANCELED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_are_nested),
		cmocka_unit_test(in_its_sleep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
