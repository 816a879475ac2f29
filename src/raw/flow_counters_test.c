/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters without a network: the test binds rules and adds frames as tap.c does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "raw/packet.h"
#include "verbs/device.h"
#include "verbs/test_ctx.h"

static struct test_ctx t;

static int begin(void **state)
{
	(void)state;
	test_open(&t);
	return 0;
}

static int end(void **state)
{
	(void)state;
	test_close(&t);
	return 0;
}

static struct counters *create(void)
{
	struct ibv_counters_init_attr a = { 0 };
	struct counters *c;

	assert_int_equal(counters_create(&t.ctx, &a, &c), 0);
	assert_ptr_equal(counters_of(&c->ibv), c);
	assert_ptr_equal(c->ibv.context, &t.ibv);
	return c;
}

static int attach(struct counters *c, int what, uint32_t index)
{
	struct ibv_counter_attach_attr a = { .counter_desc =
						     (enum ibv_counter_description)what,
					     .index = index };

	return counters_attach(c, &a);
}

static int bind_to(struct counters *c)
{
	struct counters *bound = NULL;
	int rc;

	turn_take(&t.core.turn);
	rc = counters_bind(&c->ibv, &t.ctx, &bound);
	turn_give(&t.core.turn);
	assert_true(rc ? !bound : bound == c);
	return rc;
}

static void unbind(struct counters *c)
{
	turn_take(&t.core.turn);
	counters_unbind(c);
	turn_give(&t.core.turn);
}

static void add(struct counters *c, uint32_t bytes)
{
	turn_take(&t.core.turn);
	counters_add(c, bytes);
	turn_give(&t.core.turn);
}

/* Each point adds to the value at its index; points with the same index are summed;
 * other values are 0. */
static void values_have_their_places(void **state)
{
	uint64_t v[7];
	struct counters *c = create();

	(void)state;
	assert_int_equal(attach(c, IBV_COUNTER_BYTES, 4), 0);
	assert_int_equal(attach(c, IBV_COUNTER_PACKETS, 0), 0);
	assert_int_equal(attach(c, IBV_COUNTER_PACKETS, 2), 0);
	assert_int_equal(attach(c, IBV_COUNTER_BYTES, 2), 0);
	assert_int_equal(attach(c, IBV_COUNTER_PACKETS, 2), 0);
	assert_int_equal(bind_to(c), 0);
	add(c, 60);
	add(c, UINT32_MAX);
	memset(v, 0xee, sizeof(v));
	assert_int_equal(counters_read(c, v, 6, 0), 0);
	assert_int_equal(v[0], 2);
	assert_int_equal(v[1], 0);
	assert_int_equal(v[2], 60ull + UINT32_MAX + 2 * 2);
	assert_int_equal(v[3], 0);
	assert_int_equal(v[4], 60ull + UINT32_MAX);
	assert_int_equal(v[5], 0);
	assert_int_equal(v[6], 0xeeeeeeeeeeeeeeee);
	unbind(c);
	assert_int_equal(counters_destroy(c), 0);
}

/* Several rules add to the same counters, and the counts stay when the rules are
 * gone. */
static void they_only_grow(void **state)
{
	uint64_t v[2];
	struct counters *c = create();

	(void)state;
	assert_int_equal(attach(c, IBV_COUNTER_PACKETS, 0), 0);
	assert_int_equal(bind_to(c), 0);
	assert_int_equal(bind_to(c), 0);
	add(c, 10);
	unbind(c);
	assert_int_equal(attach(c, IBV_COUNTER_BYTES, 1), -EBUSY);
	assert_int_equal(counters_destroy(c), -EBUSY);
	add(c, 20);
	unbind(c);
	assert_int_equal(counters_read(c, v, 2, 0), -EINVAL);
	assert_int_equal(attach(c, IBV_COUNTER_BYTES, 1), 0);
	assert_int_equal(bind_to(c), 0);
	add(c, 5);
	assert_int_equal(counters_read(c, v, 2, IBV_READ_COUNTERS_ATTR_PREFER_CACHED), 0);
	assert_int_equal(v[0], 3);
	assert_int_equal(v[1], 35);
	unbind(c);
	assert_int_equal(counters_destroy(c), 0);
}

static void refusals(void **state)
{
	struct ibv_counters_init_attr a = { .comp_mask = 1 };
	struct ibv_counter_attach_attr point = { .comp_mask = 1 };
	struct counters *c = create(), *other, *out;
	struct ibv_context stranger;
	struct context foreign = { .ibv = &stranger };
	uint64_t v[2];

	(void)state;
	assert_int_equal(counters_create(&t.ctx, &a, &other), -EOPNOTSUPP);
	assert_int_equal(counters_attach(c, &point), -EOPNOTSUPP);
	assert_int_equal(attach(c, IBV_COUNTER_BYTES + 1, 0), -EOPNOTSUPP);
	assert_int_equal(attach(c, -1, 0), -EOPNOTSUPP);
	assert_int_equal(bind_to(c), -EINVAL); /* no point is attached */
	for (unsigned i = 0; i < COUNTERS_POINTS; i++)
		assert_int_equal(attach(c, IBV_COUNTER_BYTES, 1), 0);
	assert_int_equal(attach(c, IBV_COUNTER_BYTES, 1), -ENOMEM);
	assert_int_equal(counters_read(c, v, 2, 0), -EINVAL); /* no rule is bound to it */
	assert_int_equal(bind_to(c), 0);
	assert_int_equal(counters_read(c, v, 1, 0), -EINVAL);
	assert_int_equal(counters_read(c, v, 0, 0), -EINVAL);
	assert_int_equal(counters_read(c, v, 2, 2), -EINVAL);
	assert_int_equal(counters_read(c, v, 2, 0), 0);
	turn_take(&t.core.turn);
	assert_int_equal(counters_bind(&c->ibv, &foreign, &out), -EINVAL);
	turn_give(&t.core.turn);
	unbind(c);
	live_del(&c->live); /* simulates an object that is freed */
	assert_int_equal(bind_to(c), -EINVAL);
	assert_int_equal(counters_destroy(c), 0);
}

/* A device without raw packet QPs has no rules and no counters. */
static void of_other_devices(void **state)
{
	struct ibv_counters_init_attr a = { 0 };
	const struct device_kind *kind = t.dev->kind;
	struct counters *c;

	(void)state;
	t.dev->kind = &device_iwarp;
	assert_int_equal(counters_create(&t.ctx, &a, &c), -EOPNOTSUPP);
	t.dev->kind = kind;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(values_have_their_places, begin, end),
		cmocka_unit_test_setup_teardown(they_only_grow, begin, end),
		cmocka_unit_test_setup_teardown(refusals, begin, end),
		cmocka_unit_test_setup_teardown(of_other_devices, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
