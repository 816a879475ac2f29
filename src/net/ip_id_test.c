/* SPDX-License-Identifier: BSD-2-Clause */
/* Which identifications of IP headers are accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/ip_addr.h"
#include "net/ip_id.h"
#include "sys/rand.h"

enum { TO = offsetof(struct ip_addr, to) };

/* A datagram from 10.0.0.9 to 10.0.0.1. */
static const struct dgram from_rxe = {
	.addr.bytes = {
		[TO + 10] = 0xff, 0xff, 10, 0, 0, 1,
		[10] = 0xff, 0xff, 10, 0, 0, 9,
	},
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

/* The sender's counter also counts what it sent to other processes of this host
 * meanwhile. */
static void meanwhile_it_has_counted(void **state)
{
	struct ip_ids *ids = ip_ids_new();

	(void)state;
	assert_true(ip_id_accept(ids, rxe, 1000, 0));
	assert_true(ip_id_accept(ids, rxe, 1500, MS));
	assert_true(ip_id_accept(ids, rxe, 6500, 11 * MS));
	assert_false(ip_id_accept(ids, rxe, 12100, 21 * MS));
	assert_true(ip_id_accept(ids, rxe, 2000, 1000 * MS));
	ip_ids_free(ids);
}

static void far_away_is_refused_once(void **state)
{
	struct ip_ids *ids = ip_ids_new();

	(void)state;
	assert_true(ip_id_accept(ids, rxe, 1000, 0));
	assert_true(ip_id_accept(ids, rxe, 1100, 0));
	assert_true(ip_id_accept(ids, rxe, 1040, 0)); /* reordered */
	assert_false(ip_id_accept(ids, rxe, 1700, 0));
	/* These two do not follow each other. */
	assert_false(ip_id_accept(ids, rxe, 30000, 0));
	assert_false(ip_id_accept(ids, rxe, 50000, 0));
	/* These two do, so the second is accepted. */
	assert_true(ip_id_accept(ids, rxe, 50003, 0));
	assert_true(ip_id_accept(ids, rxe, 50004, 0));
	assert_false(ip_id_accept(ids, rxe, 1101, 0));
	ip_ids_free(ids);
}

/* An accepted identification in between does not make a second far one follow the
 * first. */
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

/* What rdma_rxe of Linux 6.1 put on a wire from 8 QPs that sent at once, through its
 * fq_codel: the first identification of each run, and the run's length. */
/* clang-format off */
static const struct { uint16_t first, n; } recorded[] = {
	{ 0, 185 }, { 248, 2 }, { 313, 2 }, { 185, 1 }, { 250, 1 }, { 315, 1 },
	{ 186, 2 }, { 251, 2 }, { 316, 2 }, { 188, 1 }, { 253, 1 }, { 318, 1 },
	{ 189, 1 }, { 254, 1 }, { 319, 1 }, { 190, 2 }, { 255, 2 }, { 320, 2 },
	{ 192, 1 }, { 257, 1 }, { 322, 1 }, { 193, 2 }, { 258, 2 }, { 323, 2 },
	{ 195, 1 }, { 260, 1 }, { 325, 1 }, { 196, 1 }, { 261, 1 }, { 326, 1 },
	{ 197, 2 }, { 262, 2 }, { 327, 2 }, { 199, 1 }, { 264, 1 }, { 329, 1 },
	{ 200, 2 }, { 265, 2 }, { 330, 2 }, { 202, 1 }, { 267, 1 }, { 332, 1 },
	{ 203, 1 }, { 268, 1 }, { 333, 1 }, { 204, 2 }, { 269, 2 }, { 334, 2 },
	{ 206, 1 }, { 271, 1 }, { 336, 1 }, { 207, 2 }, { 272, 2 }, { 337, 2 },
	{ 209, 1 }, { 274, 1 }, { 339, 1 }, { 210, 1 }, { 275, 1 }, { 340, 1 },
	{ 211, 2 }, { 276, 2 }, { 341, 2 }, { 213, 1 }, { 278, 1 }, { 343, 1 },
	{ 214, 2 }, { 279, 2 }, { 344, 2 }, { 216, 1 }, { 281, 1 }, { 346, 1 },
	{ 217, 1 }, { 282, 1 }, { 347, 1 }, { 218, 2 }, { 283, 2 }, { 348, 2 },
	{ 220, 1 }, { 285, 1 }, { 350, 1 }, { 221, 2 }, { 286, 2 }, { 223, 1 },
	{ 288, 1 }, { 224, 1 }, { 289, 1 }, { 225, 2 }, { 290, 2 }, { 227, 1 },
	{ 292, 1 }, { 228, 2 }, { 293, 2 }, { 230, 1 }, { 295, 1 }, { 231, 1 },
	{ 296, 1 }, { 232, 2 }, { 297, 2 }, { 234, 1 }, { 299, 1 }, { 235, 2 },
	{ 300, 2 }, { 237, 1 }, { 302, 1 }, { 238, 1 }, { 303, 1 }, { 239, 2 },
	{ 304, 2 }, { 241, 1 }, { 306, 1 }, { 242, 2 }, { 307, 2 }, { 244, 1 },
	{ 309, 1 }, { 245, 1 }, { 310, 1 }, { 246, 2 }, { 311, 2 }, { 353, 57 },
	{ 351, 1 }, { 411, 1 }, { 413, 1 }, { 412, 1 }, { 414, 7 }, { 485, 2 },
	{ 421, 1 }, { 487, 1 }, { 422, 1 }, { 488, 2 }, { 423, 2 }, { 490, 1 },
	{ 425, 1 }, { 491, 1 }, { 426, 1 }, { 492, 2 }, { 427, 2 }, { 494, 1 },
	{ 429, 1 }, { 495, 1 }, { 430, 36 }, { 496, 1 }, { 466, 19 }, { 497, 17 },
	{ 577, 2 }, { 514, 1 }, { 579, 1 }, { 515, 2 }, { 580, 2 }, { 517, 1 },
	{ 582, 1 }, { 518, 1 }, { 583, 1 }, { 519, 2 }, { 584, 2 }, { 521, 1 },
	{ 586, 1 }, { 522, 2 }, { 587, 2 }, { 524, 1 }, { 589, 1 }, { 525, 1 },
	{ 590, 1 }, { 526, 2 }, { 591, 2 }, { 528, 1 }, { 593, 1 }, { 529, 2 },
	{ 594, 2 }, { 531, 1 }, { 596, 1 }, { 532, 1 }, { 597, 1 }, { 533, 2 },
	{ 598, 2 }, { 535, 1 }, { 600, 1 }, { 536, 2 }, { 601, 2 }, { 538, 1 },
	{ 603, 1 }, { 539, 1 }, { 604, 1 }, { 540, 2 }, { 605, 2 }, { 542, 1 },
	{ 607, 1 }, { 543, 2 }, { 615, 1 }, { 608, 2 }, { 545, 1 }, { 610, 1 },
	{ 546, 1 }, { 611, 1 }, { 547, 2 }, { 612, 2 }, { 549, 1 }, { 614, 1 },
	{ 550, 27 }, { 616, 138 }, { 755, 1 }, { 754, 1 }, { 756, 27 }, { 410, 1 },
};
/* clang-format on */

static void queues_of_the_sender_overtake_each_other(void **state)
{
	(void)state;
	for (unsigned start = 100; start < 1 << 16; start += 8111) {
		struct ip_ids *ids = ip_ids_new();
		unsigned refused = 0;

		for (size_t i = 0; i < sizeof(recorded) / sizeof(*recorded); i++)
			for (uint16_t k = 0; k < recorded[i].n; k++)
				refused += !ip_id_accept(
					ids, rxe,
					(uint16_t)(start + recorded[i].first + k), 0);
		assert_int_equal(refused, 0);
		ip_ids_free(ids);
	}
}

/* A run that this socket lost counts as one datagram, and only losses since the last
 * datagram count. */
static void what_our_socket_lost_is_a_gap(void **state)
{
	struct ip_ids *ids = ip_ids_new();

	(void)state;
	assert_true(ip_id_accept(ids, rxe, 1000, 0));
	ip_id_lost(ids, 10);
	assert_false(ip_id_accept(ids, rxe, 1000 + 512 + 640 + 1, 0));
	assert_true(ip_id_accept(ids, rxe, 1000 + 512 + 640, 0));
	assert_false(ip_id_accept(ids, rxe, 2800, 0));
	assert_true(ip_id_accept(ids, rxe, 2153, 0));
	ip_ids_free(ids);
}

/* Seen on hosts with busy processors: after a pause one packet is far ahead, and the
 * packets that it has overtaken follow. */
static void what_was_overtaken_by_a_jump_is_missing(void **state)
{
	struct ip_ids *ids = ip_ids_new();

	(void)state;
	for (uint16_t id = 64000; id < 64500; id++)
		assert_true(ip_id_accept(ids, rxe, id, 0));
	assert_true(ip_id_accept(ids, rxe, 64910, 0));	     /* 410 ahead */
	assert_true(ip_id_accept(ids, rxe, 71, 21 * MS));    /* 697 more */
	assert_true(ip_id_accept(ids, rxe, 64526, 21 * MS)); /* 1,081 behind */
	assert_true(ip_id_accept(ids, rxe, 64900, 21 * MS));
	assert_true(ip_id_accept(ids, rxe, 65293, 21 * MS));
	/* This one was accepted before. */
	assert_false(ip_id_accept(ids, rxe, 64300, 21 * MS));
	ip_ids_free(ids);
}

/* 64 packets of each QP wait in the sender's queues, which send in turn. */
static void so_do_many_queues(void **state)
{
	enum { QPS = 60, EACH = 64 };
	struct ip_ids *ids = ip_ids_new();

	(void)state;
	for (unsigned round = 0; round < 40; round++)
		for (unsigned i = 0; i < EACH; i++)
			for (unsigned q = 0; q < QPS; q++)
				assert_true(ip_id_accept(
					ids, rxe,
					(uint16_t)((round * QPS + q) * EACH + i), 0));
	ip_ids_free(ids);
}

/* An identification far behind is accepted only if it is missing, only once, and only
 * for a while. */
static void far_behind_only_what_is_missing(void **state)
{
	struct ip_ids *ids = ip_ids_new();
	uint16_t id = 1000;

	(void)state;
	for (; id < 2000; id++)
		if (id != 1200)
			assert_true(ip_id_accept(ids, rxe, id, 0));
	assert_true(ip_id_accept(ids, rxe, 1950, 0)); /* the network has duplicated it */
	assert_false(ip_id_accept(ids, rxe, 1201, 0));
	assert_true(ip_id_accept(ids, rxe, 1200, 0));
	assert_false(ip_id_accept(ids, rxe, 1200, 0));
	assert_true(ip_id_accept(ids, rxe, 2001, 0)); /* 2000 is missing */
	for (id = 2002; id < 6500; id++)
		assert_true(ip_id_accept(ids, rxe, id, 0));
	assert_false(ip_id_accept(ids, rxe, 2000, 0));
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
	assert_false(ip_id_accept(ids, rxe, 30300, 5000 * MS)); /* the guess is too old */
	/* Confirmed by the one before. */
	assert_true(ip_id_accept(ids, rxe, 30302, 5001 * MS));
	ip_id_guessed(ids, rxe);
	assert_true(ip_id_accept(ids, rxe, 30303, 5001 * MS));
	for (int i = 0; i < 8; i++) /* simulates another sender behind that address */
		ip_id_guessed(ids, rxe);
	assert_false(ip_id_accept(ids, rxe, 30304, 5001 * MS));
	ip_ids_free(ids);
}

/* Returns how many of n random identifications are accepted. Before each of them comes
 * one with the guessed number (places), or one that continues the sender's counter,
 * which advances by step. */
static unsigned pass(bool places, unsigned step, unsigned n)
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
			(void)ip_id_accept(ids, rxe, id = (uint16_t)(id + step), now);
		passed += ip_id_accept(ids, rxe, (uint16_t)rand_u64(&r), now);
	}
	ip_ids_free(ids);
	return passed;
}

static void a_random_one_hardly_passes(void **state)
{
	(void)state;
	assert_in_range(pass(true, 1, 1 << 18), 1, 1 << (18 - 9));
	assert_in_range(pass(false, 1, 1 << 18), 1, 1 << (18 - 4));
	/* Of ten datagrams of the sender, nine go to other processes or are lost. */
	assert_in_range(pass(false, 10, 1 << 18), 1, 1 << (18 - 3));
}

static void sources_do_not_mix(void **state)
{
	struct ip_ids *ids = ip_ids_new();

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 40; i++) {
			struct dgram d = from_rxe;

			ip_of(&d)->from.ip[15] = (uint8_t)(i / 2);
			ip_of(&d)->to.ip[15] = i % 2;
			assert_true(ip_id_accept(ids, &d,
						 (uint16_t)(1000 * (i + 1) + round), 0));
		}
	}
	ip_ids_free(ids);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_our_socket_lost_is_a_gap),
		cmocka_unit_test(counts_up_with_gaps),
		cmocka_unit_test(meanwhile_it_has_counted),
		cmocka_unit_test(far_away_is_refused_once),
		cmocka_unit_test(odd_ones_must_follow_each_other),
		cmocka_unit_test(queues_of_the_sender_overtake_each_other),
		cmocka_unit_test(what_was_overtaken_by_a_jump_is_missing),
		cmocka_unit_test(so_do_many_queues),
		cmocka_unit_test(far_behind_only_what_is_missing),
		cmocka_unit_test(small_ones_are_places_in_a_run),
		cmocka_unit_test(who_numbers_places_does_not_count),
		cmocka_unit_test(a_random_one_hardly_passes),
		cmocka_unit_test(sources_do_not_mix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
