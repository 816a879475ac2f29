/* SPDX-License-Identifier: BSD-2-Clause */
/* Which identifications are believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ib/ib_qp.h"
#include "sys/rand.h"

static const struct dgram from_rxe = {
	.from.ip = { [10] = 0xff, 0xff, 10, 0, 0, 9 },
	.to.ip = { [10] = 0xff, 0xff, 10, 0, 0, 1 },
};
static const struct dgram *const rxe = &from_rxe;

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

/* Other processes of this host have had their part of what it counts. */
static void meanwhile_it_has_counted(void **state)
{
	struct ip_ids *ids = ip_ids_new();

	(void)state;
	assert_true(ip_id_accept(ids, rxe, 1000, 0));
	assert_true(ip_id_accept(ids, rxe, 1500, MS));
	assert_true(ip_id_accept(ids, rxe, 6500, 11 * MS));
	assert_false(ip_id_accept(ids, rxe, 12000, 21 * MS));
	assert_true(ip_id_accept(ids, rxe, 2000, 1000 * MS));
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
	for (int i = 0; i < 8; i++)		/* now another sits there */
		ip_id_guessed(ids, rxe);
	assert_false(ip_id_accept(ids, rxe, 30304, 5001 * MS));
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
			struct dgram d = from_rxe;

			d.from.ip[15] = (uint8_t)(i / 2);
			d.to.ip[15] = i % 2;
			assert_true(ip_id_accept(ids, &d, (uint16_t)
						 (1000 * (i + 1) + round), 0));
		}
	}
	ip_ids_free(ids);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_up_with_gaps),
		cmocka_unit_test(meanwhile_it_has_counted),
		cmocka_unit_test(far_away_is_refused_once),
		cmocka_unit_test(odd_ones_must_follow_each_other),
		cmocka_unit_test(small_ones_are_places_in_a_run),
		cmocka_unit_test(who_numbers_places_does_not_count),
		cmocka_unit_test(a_random_one_hardly_passes),
		cmocka_unit_test(sources_do_not_mix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
