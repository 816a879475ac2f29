/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "sys/clock.h"
#include "sys/heap.h"
#include "sys/rand.h"

enum { N = 300 };

static struct heap_node node[N];

static void check(const struct heap *h)
{
	for (uint32_t i = 0; i < h->n; i++) {
		assert_int_equal(h->v[i]->pos, i + 1);
		if (i)
			assert_true(h->v[(i - 1) / 2]->at <= h->v[i]->at);
	}
}

static uint64_t earliest(void)
{
	uint64_t min = NEVER;

	for (int i = 0; i < N; i++) {
		if (heap_has(&node[i]) && node[i].at < min)
			min = node[i].at;
	}
	return min;
}

/* Any mix of sets, moves and deletions keeps the order. */
static void t_random(void **state)
{
	struct heap h;
	struct prng r;
	uint32_t in = 0;

	(void)state;
	heap_init(&h);
	rand_seed(&r, 7);
	for (int step = 0; step < 20000; step++) {
		struct heap_node *n = &node[rand_below(&r, N)];
		bool was = heap_has(n);

		if (rand_below(&r, 3) == 0) {
			heap_del(&h, n);
			assert_false(heap_has(n));
			in -= was;
		} else {
			uint64_t at = rand_below(&r, 1000);

			assert_int_equal(heap_set(&h, n, at), 0);
			assert_int_equal(n->at, at);
			in += !was;
		}
		assert_int_equal(h.n, in);
		if (step % 64 == 0)
			check(&h);
		assert_int_equal(heap_next(&h), earliest());
	}
	for (uint64_t last = 0; heap_top(&h);) {
		assert_true(heap_top(&h)->at >= last);
		last = heap_top(&h)->at;
		heap_del(&h, heap_top(&h));
	}
	heap_fini(&h);
}

static void t_never_takes_out(void **state)
{
	struct heap_node a = { 0 };
	struct heap h;

	(void)state;
	heap_init(&h);
	assert_null(heap_top(&h));
	assert_int_equal(heap_next(&h), NEVER);
	assert_int_equal(heap_set(&h, &a, 5), 0);
	assert_ptr_equal(heap_top(&h), &a);
	assert_int_equal(heap_set(&h, &a, NEVER), 0);
	assert_null(heap_top(&h));
	heap_del(&h, &a);
	assert_int_equal(heap_reserve(&h, 500), 0);
	assert_int_equal(h.cap, 500);
	heap_fini(&h);
}

static void t_rand(void **state)
{
	struct prng a, b;
	unsigned hits = 0;

	(void)state;
	rand_seed(&a, 1);
	rand_seed(&b, 1);
	for (int i = 0; i < 100000; i++) {
		assert_true(rand_below(&a, 10) < 10);
		hits += rand_chance(&a, 100000);
		(void)rand_below(&b, 10);
		(void)rand_u64(&b);
	}
	assert_int_equal(rand_u64(&a), rand_u64(&b));
	assert_in_range(hits, 9000, 11000);
	rand_seed(&b, 2);
	assert_true(rand_u64(&a) != rand_u64(&b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_random),
		cmocka_unit_test(t_never_takes_out),
		cmocka_unit_test(t_rand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
