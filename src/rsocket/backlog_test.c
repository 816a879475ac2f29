/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests wait, are accepted as far as the backlog allows, and are taken in order. */
#include "rsocket/backlog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { N = 4 };

static struct rsock_entry listener, owners[N];
static struct rsock_backlog b;
static struct rsock_child c[N];
static int freed;

static void on_free(struct rsock_entry *e)
{
	(void)e;
	freed++;
}

static int begin(void **state)
{
	(void)state;
	freed = 0;
	rsock_entry_init(&listener, on_free);
	rsock_backlog_init(&b, &listener);
	for (int i = 0; i < N; i++) {
		rsock_entry_init(&owners[i], on_free);
		rsock_child_init(&c[i], &owners[i]);
		rsock_backlog_add(&b, &c[i]);
	}
	return 0;
}

/* Gives back the count that rsock_backlog_next() has taken for the caller. */
static struct rsock_child *next(void)
{
	struct rsock_child *child = rsock_backlog_next(&b);

	if (child)
		rsock_entry_put(child->owner);
	return child;
}

static bool settle(struct rsock_child *child, bool made)
{
	struct rsock_backlog *of = NULL;
	bool waited = rsock_child_settle(child, made, &of);

	if (of)
		rsock_entry_put(of->owner);
	return waited;
}

static void in_order_as_far_as_the_backlog_goes(void **state)
{
	(void)state;
	assert_null(next());
	rsock_backlog_limit(&b, 2);
	assert_ptr_equal(next(), &c[0]);
	assert_ptr_equal(next(), &c[1]);
	assert_null(next());
	assert_false(rsock_backlog_any_ready(&b));
	assert_null(rsock_backlog_take(&b));
	assert_true(settle(&c[1], true));
	assert_true(settle(&c[0], true));
	assert_true(rsock_backlog_any_ready(&b));
	assert_null(next()); /* ready connections count, too */
	assert_ptr_equal(rsock_backlog_take(&b), &c[1]);
	assert_ptr_equal(next(), &c[2]);
	assert_ptr_equal(rsock_backlog_take(&b), &c[0]);
	assert_null(rsock_backlog_take(&b));
}

static void one_that_fails_makes_room(void **state)
{
	(void)state;
	rsock_backlog_limit(&b, 1);
	assert_ptr_equal(next(), &c[0]);
	assert_true(settle(&c[0], false));
	assert_null(c[0].of);
	assert_ptr_equal(next(), &c[1]);
	assert_true(settle(&c[2], false)); /* the client has given up */
	assert_true(settle(&c[1], true));
	assert_ptr_equal(rsock_backlog_take(&b), &c[1]);
	assert_ptr_equal(next(), &c[3]);
}

static void what_is_ready_is_settled(void **state)
{
	(void)state;
	rsock_backlog_limit(&b, 4);
	next();
	assert_true(settle(&c[0], true));
	assert_false(settle(&c[0], true));
	/* The program is told when it uses the connection. */
	assert_false(settle(&c[0], false));
	rsock_backlog_take(&b);
	assert_false(settle(&c[0], false));
}

static void one_without_a_descriptor_is_the_next(void **state)
{
	(void)state;
	rsock_backlog_limit(&b, 4);
	next();
	next();
	settle(&c[0], true);
	settle(&c[1], true);
	assert_ptr_equal(rsock_backlog_take(&b), &c[0]);
	rsock_backlog_give_back(&b, &c[0]);
	assert_ptr_equal(rsock_backlog_take(&b), &c[0]);
	assert_ptr_equal(rsock_backlog_take(&b), &c[1]);
}

static void hostile_numbers(void **state)
{
	(void)state;
	rsock_backlog_limit(&b, -5);
	assert_int_equal(b.max, 1);
	rsock_backlog_limit(&b, 0);
	assert_int_equal(b.max, 1);
	rsock_backlog_limit(&b, INT32_MAX);
	assert_int_equal(b.max, RSOCK_BACKLOG_MAX);
}

static void only_so_many_wait(void **state)
{
	static struct rsock_child many[RSOCK_WAITING_MAX];

	(void)state;
	for (int i = N; i < RSOCK_WAITING_MAX; i++) {
		assert_true(rsock_backlog_has_room(&b));
		rsock_child_init(&many[i], &owners[0]);
		rsock_backlog_add(&b, &many[i]);
	}
	assert_false(rsock_backlog_has_room(&b));
}

static void a_listener_that_goes(void **state)
{
	struct rsock_backlog *of = &b;
	struct list all;
	int n = 0;

	(void)state;
	list_init(&all);
	rsock_backlog_limit(&b, 2);
	next();
	next();
	settle(&c[0], true);
	rsock_entry_put(&listener); /* the listener is being freed */
	assert_int_equal(freed, 1);
	assert_true(rsock_child_settle(&c[1], true, &of));
	assert_null(of); /* the listener cannot be told */
	rsock_backlog_empty(&b, &all);
	list_for(at, &all) n++;
	assert_int_equal(n, N);
	for (int i = 0; i < N; i++)
		assert_false(rsock_child_settle(&c[i], false, &of));
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(in_order_as_far_as_the_backlog_goes, begin),
		cmocka_unit_test_setup(one_that_fails_makes_room, begin),
		cmocka_unit_test_setup(what_is_ready_is_settled, begin),
		cmocka_unit_test_setup(one_without_a_descriptor_is_the_next, begin),
		cmocka_unit_test_setup(hostile_numbers, begin),
		cmocka_unit_test_setup(only_so_many_wait, begin),
		cmocka_unit_test_setup(a_listener_that_goes, begin),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
