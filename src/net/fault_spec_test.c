/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/fault_spec.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void every_key_is_understood(void **state)
{
	struct fault_spec s;
	char err[160] = "";

	(void)state;
	assert_int_equal(
		fault_parse(&s,
			    "drop=0.01,dup=0.001,reorder=1,"
			    "delay=100us:0.1,corrupt=0.000001,nth=5,nth=7,seed=42",
			    err, sizeof(err)),
		0);
	for (int dir = 0; dir < FAULT_DIRS; dir++) {
		const struct fault_rules *r = &s.rules[dir];

		assert_int_equal(r->drop, 10000);
		assert_int_equal(r->dup, 1000);
		assert_int_equal(r->reorder, 1000000);
		assert_int_equal(r->delay, 100000);
		assert_int_equal(r->delay_ns, 100000);
		assert_int_equal(r->corrupt, 1);
		assert_int_equal(r->nth[0], 5);
		assert_int_equal(r->nth[1], 7);
		assert_int_equal(r->nth[2], 0);
	}
	assert_int_equal(s.seed, 42);
	assert_string_equal(err, "");
}

static void a_prefix_names_one_direction(void **state)
{
	struct fault_spec s;
	char err[160];

	(void)state;
	assert_int_equal(fault_parse(&s, "tx:drop=0.5,rx:delay=2ms,rx:nth=1,dup=1", err,
				     sizeof(err)),
			 0);
	assert_int_equal(s.rules[FAULT_TX].drop, 500000);
	assert_int_equal(s.rules[FAULT_RX].drop, 0);
	assert_int_equal(s.rules[FAULT_TX].delay, 0);
	assert_int_equal(s.rules[FAULT_RX].delay, 1000000);
	assert_int_equal(s.rules[FAULT_RX].delay_ns, 2000000);
	assert_int_equal(s.rules[FAULT_TX].nth[0], 0);
	assert_int_equal(s.rules[FAULT_RX].nth[0], 1);
	assert_int_equal(s.rules[FAULT_TX].dup, 1000000);
	assert_int_equal(s.rules[FAULT_RX].dup, 1000000);
	assert_int_equal(s.seed, 1);
}

static void nothing_is_no_fault(void **state)
{
	struct fault_spec s, none = { .seed = 1 };
	char err[160];

	(void)state;
	assert_int_equal(fault_parse(&s, "", err, sizeof(err)), 0);
	assert_memory_equal(&s, &none, sizeof(s));
}

static void what_is_wrong_is_named(void **state)
{
	static const struct {
		const char *spec, *names;
	} bad[] = {
		{ "dropp=0.1", "dropp" },
		{ "seed=1,dro=1", "no fault is called dro" },
		{ "drop", "'drop' is not KEY=VALUE" },
		{ "drop=", "drop wants a probability" },
		{ "drop=2", "'drop=2'" },
		{ "drop=1.1", "drop wants" },
		{ "drop=-0.1", "drop wants" },
		{ "drop=0,1", "'1' is not KEY=VALUE" },
		{ "drop=0.1x", "drop=0.1x" },
		{ "delay=100", "delay wants TIME" },
		{ "delay=100us:", "delay wants TIME" },
		{ "delay=100us:3", "delay wants TIME" },
		{ "delay=1001s", "delay wants TIME" },
		{ "delay=99999999999999999999s", "delay wants TIME" },
		{ "nth=0", "nth wants" },
		{ "nth=18446744073709551616", "nth wants" },
		{ "rx:seed=1", "both directions" },
		{ "seed=x", "seed wants a number" },
		{ "drop=1,", "ends with a comma" },
		{ ",drop=1", "'' is not KEY=VALUE" },
		{ "up:drop=1", "up:drop" },
		{ "tx:", "'tx:' is not KEY=VALUE" },
		{ "nth=1,nth=1,nth=1,nth=1,nth=1,nth=1,nth=1,nth=1,nth=1,nth=1,"
		  "nth=1,nth=1,nth=1,nth=1,nth=1,nth=1,nth=2",
		  "'nth=2'" },
	};
	struct fault_spec s = { .seed = 99 };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char err[160] = "";

		if (fault_parse(&s, bad[i].spec, err, sizeof(err)) != -EINVAL)
			fail_msg("'%s' is taken", bad[i].spec);
		if (!strstr(err, bad[i].names))
			fail_msg("'%s': '%s'", bad[i].spec, err);
		assert_int_equal(s.seed, 99);
	}
}

static void a_link_that_keeps_order_has_some(void **state)
{
	static const char *const bad[] = { "dup=0.1", "rx:reorder=0.1",
					   "tx:delay=1ms:0.5", "drop=0.1,dup=0.000001" };
	struct fault_spec s = { .seed = 99 };
	char err[256] = "";

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(fault_parse_ordered(&s, bad[i], err, sizeof(err)),
				 -EINVAL);
		assert_non_null(strstr(err, "keep order"));
		assert_non_null(strstr(err, bad[i]));
	}
	assert_int_equal(fault_parse_ordered(&s, "drip=1", err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "drip"));
	assert_int_equal(s.seed, 99);
	assert_int_equal(fault_parse_ordered(&s, "drop=0.1,tx:corrupt=1,nth=3,delay=1ms",
					     err, sizeof(err)),
			 0);
	assert_int_equal(s.rules[FAULT_TX].corrupt, 1000000);
	assert_int_equal(s.rules[FAULT_RX].delay_ns, 1000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_is_understood),
		cmocka_unit_test(a_prefix_names_one_direction),
		cmocka_unit_test(nothing_is_no_fault),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(a_link_that_keeps_order_has_some),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
