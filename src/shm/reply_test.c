/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static struct reply_shared *shared;
static struct reply_room room;

static int set_up(void **state)
{
	(void)state;
	shared = aligned_alloc(SLOT, sizeof(*shared));
	reply_open(&room, shared);
	return !shared;
}

static int tear_down(void **state)
{
	(void)state;
	free(shared);
	return 0;
}

static void each_place_once(void **state)
{
	bool seen[REPLIES] = { false };
	int place;

	(void)state;
	for (unsigned i = 0; i < REPLIES; i++) {
		place = reply_take(&room, i < REPLY_WORDS ? SLOT : RING_CHUNK);
		assert_true(place >= 0 && !seen[place]);
		seen[place] = true;
		assert_non_null(reply_at(shared, (uint32_t)place,
					 i < REPLY_WORDS ? SLOT : RING_CHUNK));
	}
	assert_int_equal(reply_take(&room, 1), -1);
	reply_give(&room, REPLY_WORDS);
	assert_int_equal(reply_take(&room, 1), REPLY_WORDS); /* a chunk holds a word */
}

static void places_that_a_hostile_peer_names(void **state)
{
	(void)state;
	assert_null(reply_at(shared, 0, SLOT + 1));
	assert_null(reply_at(shared, REPLIES - 1, RING_CHUNK + 1));
	assert_null(reply_at(shared, REPLIES, 0));
	assert_null(reply_at(shared, UINT32_MAX, 0));
	assert_ptr_equal(reply_at(shared, REPLIES - 1, RING_CHUNK),
			 shared->chunk[REPLY_CHUNKS - 1]);
}

static void left_until_the_peer_has_read_on(void **state)
{
	const uint32_t until = 0xfffffffe;

	(void)state;
	for (unsigned i = 0; i < REPLIES; i++)
		(void)reply_take(&room, i < REPLY_CHUNKS ? RING_CHUNK : 1);
	assert_int_equal(reply_take(&room, 8), -1);
	reply_leave(&room, 3, until);
	reply_leave(&room, 4, until + 4);
	reply_gather(&room, until - 1);
	assert_int_equal(reply_take(&room, 8), -1);
	reply_gather(&room, until);
	assert_int_equal(reply_take(&room, 8), 3);
	assert_int_equal(reply_take(&room, 8), -1);
	reply_gather(&room, 5);
	assert_int_equal(reply_take(&room, 8), 4);
}

/* Positions have come halfway around since. */
static void left_long_ago(void **state)
{
	(void)state;
	for (unsigned i = 0; i < REPLIES; i++)
		(void)reply_take(&room, i < REPLY_CHUNKS ? RING_CHUNK : 1);
	reply_leave(&room, 3, 10);
	reply_gather(&room, 9);
	assert_int_equal(reply_take(&room, 8), -1);
	reply_gather(&room, 0x80000100);
	assert_int_equal(reply_take(&room, 8), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_place_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(places_that_a_hostile_peer_names, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(left_until_the_peer_has_read_on, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(left_long_ago, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
