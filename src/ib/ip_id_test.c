/* SPDX-License-Identifier: BSD-2-Clause */
/* Which identifications are believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ib/ib_qp.h"

static const uint8_t rxe[16] = { [10] = 0xff, 0xff, 10, 0, 0, 9 };

static void counts_up_with_gaps(void **state)
{
	struct ip_ids *ids = ip_ids_new();
	uint16_t id = 60000;

	(void)state;
	for (int i = 0; i < 100; i++, id = (uint16_t)(id + 1 + i * 40))
		assert_true(ip_id_accept(ids, rxe, id));
	ip_ids_free(ids);
}

static void far_away_is_refused_once(void **state)
{
	struct ip_ids *ids = ip_ids_new();

	(void)state;
	assert_true(ip_id_accept(ids, rxe, 1000));
	assert_true(ip_id_accept(ids, rxe, 1000 + 4096));
	assert_true(ip_id_accept(ids, rxe, 1000 + 4096 - 64));	/* reordered */
	assert_false(ip_id_accept(ids, rxe, 1000 + 2 * 4096 + 1));
	assert_false(ip_id_accept(ids, rxe, 30000));	/* these two disagree */
	assert_false(ip_id_accept(ids, rxe, 50000));
	assert_true(ip_id_accept(ids, rxe, 50003));	/* these agree */
	assert_true(ip_id_accept(ids, rxe, 50004));
	assert_false(ip_id_accept(ids, rxe, 1000 + 4096));
	ip_ids_free(ids);
}

/* One that is right in between does not let the second odd one in. */
static void odd_ones_must_follow_each_other(void **state)
{
	struct ip_ids *ids = ip_ids_new();

	(void)state;
	assert_true(ip_id_accept(ids, rxe, 1000));
	assert_false(ip_id_accept(ids, rxe, 30000));
	assert_true(ip_id_accept(ids, rxe, 1001));
	assert_false(ip_id_accept(ids, rxe, 30001));
	ip_ids_free(ids);
}

static void small_ones_are_places_in_a_run(void **state)
{
	struct ip_ids *ids = ip_ids_new();

	(void)state;
	assert_true(ip_id_accept(ids, rxe, 30000));
	assert_true(ip_id_accept(ids, rxe, 63));
	assert_true(ip_id_accept(ids, rxe, 30001));
	assert_false(ip_id_accept(ids, rxe, 64));
	ip_ids_free(ids);
}

static void sources_do_not_mix(void **state)
{
	struct ip_ids *ids = ip_ids_new();

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 40; i++) {
			uint8_t ip[16] = { [10] = 0xff, 0xff, 10, 1, 0, (uint8_t)i };

			assert_true(ip_id_accept(ids, ip, (uint16_t)
						 (1000 * (i + 1) + (unsigned)round)));
		}
	}
	ip_ids_free(ids);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_up_with_gaps),
		cmocka_unit_test(far_away_is_refused_once),
		cmocka_unit_test(odd_ones_must_follow_each_other),
		cmocka_unit_test(small_ones_are_places_in_a_run),
		cmocka_unit_test(sources_do_not_mix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
