/* SPDX-License-Identifier: BSD-2-Clause */
/* Which identifications are believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ib/ib_qp.h"
#include "sys/rand.h"

static const uint8_t rxe[16] = { [10] = 0xff, 0xff, 10, 0, 0, 9 };

static const uint64_t MS = 1000000;

static void counts_up_with_gaps(void **state)
{
	struct ip_ids *ids = ip_ids_new();
	uint16_t id = 60000;

	(void)state;
	for (int i = 0; i < 100; i++, id = (uint16_t)(id + 1 + i))
		assert_true(ip_id_accept(ids, rxe, id, 0));
	ip_ids_free(ids);
}

/* Linux adds up to one for each tick that a counter was idle. */
static void an_idle_counter_jumps(void **state)
{
	struct ip_ids *ids = ip_ids_new();

	(void)state;
	assert_true(ip_id_accept(ids, rxe, 1000, 0));
	assert_true(ip_id_accept(ids, rxe, 2100, 1000 * MS));
	assert_false(ip_id_accept(ids, rxe, 4300, 2000 * MS));
	assert_true(ip_id_accept(ids, rxe, 2000, 100000 * MS));
	ip_ids_free(ids);
}

static void far_away_is_refused_once(void **state)
{
	struct ip_ids *ids = ip_ids_new();

	(void)state;
	assert_true(ip_id_accept(ids, rxe, 1000, 0));
	assert_true(ip_id_accept(ids, rxe, 1100, 0));
	assert_true(ip_id_accept(ids, rxe, 1040, 0));	/* reordered */
	assert_false(ip_id_accept(ids, rxe, 1300, 0));
	assert_false(ip_id_accept(ids, rxe, 30000, 0));	/* these two disagree */
	assert_false(ip_id_accept(ids, rxe, 50000, 0));
	assert_true(ip_id_accept(ids, rxe, 50003, 0));	/* these agree */
	assert_true(ip_id_accept(ids, rxe, 50004, 0));
	assert_false(ip_id_accept(ids, rxe, 1101, 0));
	ip_ids_free(ids);
}

/* One that is right in between does not let the second odd one in. */
static void odd_ones_must_follow_each_other(void **state)
{
	struct ip_ids *ids = ip_ids_new();

	(void)state;
	assert_true(ip_id_accept(ids, rxe, 1000, 0));
	assert_false(ip_id_accept(ids, rxe, 30000, 0));
	assert_true(ip_id_accept(ids, rxe, 1001, 0));
	assert_false(ip_id_accept(ids, rxe, 30001, 0));
	ip_ids_free(ids);
}

static void small_ones_are_places_in_a_run(void **state)
{
	struct ip_ids *ids = ip_ids_new();

	(void)state;
	assert_true(ip_id_accept(ids, rxe, 30000, 0));
	assert_true(ip_id_accept(ids, rxe, 63, 0));
	assert_true(ip_id_accept(ids, rxe, 30001, 0));
	assert_false(ip_id_accept(ids, rxe, 64, 0));
	ip_ids_free(ids);
}

static void who_numbers_places_does_not_count(void **state)
{
	struct ip_ids *ids = ip_ids_new();

	(void)state;
	ip_id_guessed(ids, rxe);
	assert_true(ip_id_accept(ids, rxe, 5, 0));
	assert_false(ip_id_accept(ids, rxe, 64, 0));
	assert_false(ip_id_accept(ids, rxe, 30000, 0));
	assert_false(ip_id_accept(ids, rxe, 30300, 5000 * MS));	/* long ago */
	assert_true(ip_id_accept(ids, rxe, 30302, 5001 * MS));	/* so it does */
	ip_id_guessed(ids, rxe);
	assert_true(ip_id_accept(ids, rxe, 30303, 5001 * MS));
	ip_ids_free(ids);
}

/* How many of n random ones pass, of a source that sends a right one, or one
 * with the number that was guessed, before each. */
static unsigned pass(bool places, unsigned n)
{
	struct ip_ids *ids = ip_ids_new();
	struct prng r;
	unsigned passed = 0;
	uint16_t id = 1000;
	uint64_t now = 0;

	rand_seed(&r, 1);
	for (unsigned i = 0; i < n; i++, now += 10000) {
		if (places)
			ip_id_guessed(ids, rxe);
		else
			(void)ip_id_accept(ids, rxe, id++, now);
		passed += ip_id_accept(ids, rxe, (uint16_t)rand_u64(&r), now);
	}
	ip_ids_free(ids);
	return passed;
}

static void a_random_one_hardly_passes(void **state)
{
	(void)state;
	assert_in_range(pass(true, 1 << 18), 1, 1 << (18 - 9));
	assert_in_range(pass(false, 1 << 18), 1, 1 << (18 - 6));
}

static void sources_do_not_mix(void **state)
{
	struct ip_ids *ids = ip_ids_new();

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 40; i++) {
			uint8_t ip[16] = { [10] = 0xff, 0xff, 10, 1, 0, (uint8_t)i };

			assert_true(ip_id_accept(ids, ip, (uint16_t)
						 (1000 * (i + 1) + round), 0));
		}
	}
	ip_ids_free(ids);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_up_with_gaps),
		cmocka_unit_test(an_idle_counter_jumps),
		cmocka_unit_test(far_away_is_refused_once),
		cmocka_unit_test(odd_ones_must_follow_each_other),
		cmocka_unit_test(small_ones_are_places_in_a_run),
		cmocka_unit_test(who_numbers_places_does_not_count),
		cmocka_unit_test(a_random_one_hardly_passes),
		cmocka_unit_test(sources_do_not_mix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
