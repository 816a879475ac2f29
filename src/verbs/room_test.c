/* SPDX-License-Identifier: BSD-2-Clause */
/* The state that rooms keep in a core: each room finds its own, in each core. */
#include <pthread.h>

#include "verbs/room.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct core a, b;

static void a_room_finds_its_own_in_each_core(void **state)
{
	static struct room_key one, other;
	int x, y, z;

	(void)state;
	assert_null(room_get(&a, &one)); /* this room was never opened */
	room_put(&a, &one, &x);
	room_put(&b, &one, &y);
	assert_null(room_get(&a, &other));
	room_put(&a, &other, &z);
	assert_ptr_equal(room_get(&a, &one), &x);
	assert_ptr_equal(room_get(&b, &one), &y);
	assert_ptr_equal(room_get(&a, &other), &z);
	assert_null(room_get(&b, &other));
	room_put(&a, &one, NULL);
	assert_null(room_get(&a, &one));
	assert_ptr_equal(room_get(&b, &one), &y);
	assert_ptr_equal(room_get(&a, &other), &z);
}

static struct room_key shared;

static void *open_in(void *core)
{
	room_put(core, &shared, core);
	return room_get(core, &shared);
}

static void two_threads_agree_on_the_place(void **state)
{
	pthread_t thread;
	void *found;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, open_in, &a), 0);
	assert_ptr_equal(open_in(&b), &b);
	assert_int_equal(pthread_join(thread, &found), 0);
	assert_ptr_equal(found, &a);
	assert_ptr_equal(room_get(&a, &shared), &a);
	assert_ptr_equal(room_get(&b, &shared), &b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_room_finds_its_own_in_each_core),
		cmocka_unit_test(two_threads_agree_on_the_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
