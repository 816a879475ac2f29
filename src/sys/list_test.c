/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sys/list.h"

struct item {
	int v;
	struct list node;
};

static int sum(struct list *head)
{
	int s = 0;

	list_for(p, head) s = s * 10 + container_of(p, struct item, node)->v;
	return s;
}

static void t_order_and_delete(void **state)
{
	struct item a = { .v = 1 }, b = { .v = 2 }, c = { .v = 3 };
	struct list head;

	(void)state;
	list_init(&head);
	assert_true(list_empty(&head));
	list_add_tail(&head, &a.node);
	list_add_tail(&head, &b.node);
	list_add_tail(&head, &c.node);
	assert_int_equal(sum(&head), 123);
	list_del(&b.node);
	assert_int_equal(sum(&head), 13);
	list_del(&b.node); /* deleting it twice does no harm */
	assert_int_equal(sum(&head), 13);
	assert_false(list_empty(&head));
}

static void t_delete_while_walking(void **state)
{
	struct item v[5] = { 0 };
	struct list head;

	(void)state;
	list_init(&head);
	for (int i = 0; i < 5; i++) {
		v[i].v = i + 1;
		list_add_tail(&head, &v[i].node);
	}
	list_for_safe(p, &head)
	{
		if (container_of(p, struct item, node)->v % 2)
			list_del(p);
	}
	assert_int_equal(sum(&head), 24);
}

static void t_take(void **state)
{
	struct item a = { .v = 1 }, b = { .v = 2 };
	struct list from, to;

	(void)state;
	list_init(&from);
	list_take(&to, &from);
	assert_true(list_empty(&from) && list_empty(&to));
	list_add_tail(&from, &a.node);
	list_add_tail(&from, &b.node);
	list_take(&to, &from);
	assert_true(list_empty(&from));
	assert_int_equal(sum(&to), 12);
	list_del(&a.node);
	list_del(&b.node);
	assert_true(list_empty(&to));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_order_and_delete),
		cmocka_unit_test(t_delete_while_walking),
		cmocka_unit_test(t_take),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
