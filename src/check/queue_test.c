/* SPDX-License-Identifier: BSD-2-Clause */
/* queue_test.c - outstanding requests. */
#include "check/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct check_wr *add(struct check_queue *q, uint64_t wr_id, bool signaled)
{
	struct check_wr *w = check_queue_add(q);

	if (w) {
		w->wr_id = wr_id;
		w->flags = signaled ? IBV_SEND_SIGNALED : 0;
	}
	return w;
}

static void test_in_order(void **state)
{
	struct check_queue q;

	(void)state;
	assert_int_equal(check_queue_init(&q, 3, 2), 0);
	for (unsigned i = 0; i < 100; i++) {
		struct check_wr *w = add(&q, i, true);

		w->sge[1].length = i;
		assert_int_equal(check_queue_used(&q), 1);
		assert_ptr_equal(check_queue_find(&q, i, true), w);
		check_queue_drop(&q, w);
		assert_int_equal(check_queue_used(&q), 0);
	}
	check_queue_free(&q);
	assert_null(add(&q, 1, true));
}

/* A thread may post before another has told of the completion that made room. */
static void test_more_than_there_are_places(void **state)
{
	struct check_queue q;

	(void)state;
	assert_int_equal(check_queue_init(&q, 3, 1), 0);
	for (unsigned i = 0; i < 6; i++)
		assert_non_null(add(&q, i, true));
	while (add(&q, 7, true))
		;
	assert_true(q.unsure);
	check_queue_clear(&q);
	assert_false(q.unsure);
	assert_int_equal(check_queue_used(&q), 0);
	check_queue_free(&q);
}

static void test_out_of_order(void **state)
{
	struct check_queue q;
	struct check_wr *w[4];

	(void)state;
	assert_int_equal(check_queue_init(&q, 4, 1), 0);
	for (unsigned i = 0; i < 4; i++)
		w[i] = add(&q, 5, i > 1);
	assert_ptr_equal(check_queue_find(&q, 5, false), w[0]);
	assert_ptr_equal(check_queue_find(&q, 5, true), w[2]);
	assert_null(check_queue_find(&q, 6, false));
	check_queue_drop(&q, w[2]);
	assert_ptr_equal(check_queue_find(&q, 5, true), w[3]);
	w[3]->building = true;
	assert_null(check_queue_find(&q, 5, true));
	check_queue_drop(&q, w[3]);
	assert_int_equal(check_queue_used(&q), 2);
	check_queue_drop(&q, w[0]);
	check_queue_drop(&q, w[1]);
	assert_int_equal(q.head, q.tail);
	check_queue_free(&q);
}

/* Positions are numbers of 32 bits. */
static void test_positions_wrap(void **state)
{
	struct check_queue q;
	struct check_wr *w[4];

	(void)state;
	assert_int_equal(check_queue_init(&q, 4, 1), 0);
	q.head = q.tail = UINT32_MAX - 1;
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 4; i++)
			w[i] = add(&q, i, true);
		assert_int_equal(check_queue_used(&q), 4);
		for (unsigned i = 0; i < 4; i++)
			assert_ptr_equal(check_queue_find(&q, i, true), w[i]);
		check_queue_drop(&q, w[2]);
		check_queue_drop(&q, w[0]);
		assert_int_equal(check_queue_used(&q), 2);
		check_queue_drop(&q, w[3]);
		check_queue_drop(&q, w[1]);
		assert_int_equal(q.head, q.tail);
	}
	assert_false(q.unsure);
	check_queue_free(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_order),
		cmocka_unit_test(test_more_than_there_are_places),
		cmocka_unit_test(test_out_of_order),
		cmocka_unit_test(test_positions_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
