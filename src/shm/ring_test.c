/* SPDX-License-Identifier: BSD-2-Clause */
/* Records come out as they went in, whatever the process at the other end does. */
#include "shm/ring.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct ring_shared *shared;
static struct ring_out out;
static struct ring_in in;

static int open_ring(void **state)
{
	(void)state;
	shared = aligned_alloc(SLOT, sizeof(*shared));
	assert_non_null(shared);
	memset(shared, 0, sizeof(*shared));
	out = (struct ring_out){ .s = shared };
	in = (struct ring_in){ .s = shared };
	return 0;
}

static int close_ring(void **state)
{
	(void)state;
	free(shared);
	return 0;
}

static bool put_in(struct rec *r, uint32_t len, uint32_t number)
{
	if (!r)
		return false;
	r->kind = REC_SEGMENT;
	r->flags = 0;
	r->flags = 0;
	r->psn = number;
	memset((uint8_t *)r + REC_HEAD, (int)(uint8_t)number, len);
	ring_publish(&out, r, REC_HEAD + len);
	return true;
}

static bool put(uint32_t len, uint32_t number)
{
	return put_in(ring_reserve(&out, REC_HEAD + len), len, number);
}

static bool put_answer(uint32_t number)
{
	return put_in(ring_reserve_answer(&out), 0, number);
}

static bool get(uint32_t len, uint32_t number)
{
	const uint8_t *at;
	struct rec r;
	uint32_t n;

	if (ring_next(&in, &r, &at, &n) != 1)
		return false;
	assert_int_equal(r.kind, REC_SEGMENT);
	assert_int_equal(r.psn, number);
	assert_int_equal(n, len);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(at[i], (uint8_t)number);
	ring_release(&in, &r);
	return true;
}

static void empty_and_full(void **state)
{
	uint32_t n = 0;

	(void)state;
	assert_true(ring_empty(&in));
	assert_false(get(0, 0));
	while (put(100, n))
		n++;
	assert_int_equal(n, (RING_SLOTS - RING_ANSWER_SLOTS - 1) / 3);
	assert_false(ring_has_room(&out));
	for (uint32_t i = 0; i < RING_ANSWER_SLOTS; i++)
		assert_true(put_answer(n + i));
	assert_false(put_answer(0));
	assert_int_equal(shared->want_space, 1);
	for (uint32_t i = 0; i < n; i++)
		assert_true(get(100, i));
	for (uint32_t i = 0; i < RING_ANSWER_SLOTS; i++)
		assert_true(get(0, n + i));
	assert_false(get(0, 0));
	/* The reader has not yet told the writer of the room. */
	assert_false(ring_has_room(&out));
	assert_true(ring_tell(&in));
	assert_false(ring_tell(&in)); /* the reader tells it once */
	assert_true(ring_has_room(&out));
}

/* A lap is short if its records are and the reader keeps up, and long otherwise. */
static void laps(void **state)
{
	uint32_t n = 0, got = 0, most = 0;

	(void)state;
	for (; n < 3000; n++) {
		assert_true(put(900, n));
		assert_in_range(out.head % RING_SLOTS, 1, RING_NEAR);
		assert_true(ring_has_room(&out));
		assert_true(get(900, got++));
		ring_tell(&in);
	}
	while (put(900, n))
		n++;
	assert_in_range(out.head - in.tail, RING_SLOTS - RING_ANSWER_SLOTS - 40,
			RING_SLOTS);
	while (got < n)
		assert_true(get(900, got++));
	assert_true(ring_empty(&in));
	ring_tell(&in);
	for (uint32_t i = 0; i < 1000; i++) {
		assert_true(put(2000, i) && get(2000, i));
		ring_tell(&in);
		if (i >= 500 && out.head % RING_SLOTS > most)
			most = out.head % RING_SLOTS;
	}
	assert_in_range(most, RING_SLOTS - 40, RING_SLOTS);
}

/* Any length at any place, for many laps; positions wrap as well. */
static void every_length(void **state)
{
	uint32_t put_n = 0, got_n = 0, lens[RING_SLOTS], seed = 1;

	(void)state;
	out.head = out.tail = in.tail = in.told = UINT32_MAX - 5000;
	shared->tail = in.tail;
	for (int i = 0; i < 200000; i++) {
		uint32_t len;

		seed = seed * 1103515245 + 12345;
		len = seed >> 16 & 1 ? (seed >> 8) % 200 : (seed >> 8) % (RING_CHUNK + 1);
		if (seed >> 20 & 1 && put(len, put_n)) {
			lens[put_n++ % RING_SLOTS] = len;
		} else if (got_n < put_n) {
			assert_true(get(lens[got_n % RING_SLOTS], got_n));
			got_n++;
			ring_tell(&in);
		} else {
			assert_true(ring_empty(&in));
		}
	}
	assert_true(got_n > 10000);
}

enum { MANY = 300000 };

static void *write_many(void *arg)
{
	for (uint32_t i = 0; i < MANY;)
		i += put(i % 97, i);
	return arg;
}

static void two_threads(void **state)
{
	pthread_t t;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, write_many, NULL), 0);
	for (uint32_t i = 0; i < MANY;) {
		if (get(i % 97, i))
			i++;
		ring_tell(&in);
	}
	pthread_join(t, NULL);
}

/* Payload of the lap before looks like a stamp, just where the next record will be. */
static void old_payload_is_no_record(void **state)
{
	struct rec *r = ring_reserve(&out, 4 * SLOT);
	const uint8_t *at;
	struct rec rec;
	uint32_t n;

	(void)state;
	r->kind = REC_SEGMENT;
	r->flags = 0;
	r->flags = 0;
	for (uint32_t i = 1; i < 4; i++)
		((struct rec *)(void *)shared->slot[i])->stamp =
			(RING_SLOTS + i) << 1 | 1;
	ring_publish(&out, r, 4 * SLOT);
	assert_int_equal(ring_next(&in, &rec, &at, &n), 1);
	ring_release(&in, &rec);
	for (uint32_t i = 4; i < RING_SLOTS + 3; i++) {
		assert_int_equal(ring_next(&in, &rec, &at, &n), 0);
		assert_true(put(0, i));
		assert_true(get(0, i));
		ring_tell(&in);
	}
	assert_int_equal(ring_next(&in, &rec, &at, &n), 0);
}

static void garbage(void **state)
{
	/* clang-format off */
	static const struct { uint32_t bytes; uint8_t kind, flags; } bad[] = {
		{ 0, REC_SEGMENT, 0 }, { 31, REC_SEGMENT, 0 },
		{ REC_HEAD_WIDE + RING_CHUNK + 1, REC_SEGMENT, 0 }, { UINT32_MAX, REC_SEGMENT, 0 },
		{ 64, REC_KINDS, 0 }, { 64, 255, 0 }, { 0, REC_PAD, 0 },
		{ SLOT * RING_SLOTS + 1, REC_PAD, 0 }, { UINT32_MAX, REC_PAD, 0 },
	};
	/* clang-format on */
	struct rec *r = (struct rec *)(void *)shared->slot[0], copy;
	const uint8_t *at;
	uint32_t n;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		*r = (struct rec){ .stamp = 1,
				   .kind = bad[i].kind,
				   .flags = bad[i].flags,
				   .bytes = bad[i].bytes };
		assert_int_equal(ring_next(&in, &copy, &at, &n), -EPROTO);
	}
	/* A record that crosses the ring's end. */
	in.tail = RING_SLOTS - 1;
	r = (struct rec *)(void *)shared->slot[RING_SLOTS - 1];
	*r = (struct rec){ .stamp = in.tail << 1 | 1, .kind = REC_SEGMENT, .bytes = 65 };
	assert_int_equal(ring_next(&in, &copy, &at, &n), -EPROTO);

	/* A pad reaches the ring's end, and is never the whole ring. */
	*r = (struct rec){ .stamp = in.tail << 1 | 1, .kind = REC_PAD, .bytes = 64 };
	assert_int_equal(ring_next(&in, &copy, &at, &n), 0);
	assert_int_equal(in.tail, RING_SLOTS);
	in.tail = RING_SLOTS - 2;
	r = (struct rec *)(void *)shared->slot[RING_SLOTS - 2];
	*r = (struct rec){ .stamp = in.tail << 1 | 1, .kind = REC_PAD, .bytes = 64 };
	assert_int_equal(ring_next(&in, &copy, &at, &n), -EPROTO);
	in.tail = 0;
	r = (struct rec *)(void *)shared->slot[0];
	*r = (struct rec){ .stamp = 1, .kind = REC_PAD, .bytes = RING_SLOTS * SLOT };
	assert_int_equal(ring_next(&in, &copy, &at, &n), -EPROTO);

	shared->tail = 1; /* beyond what was written */
	assert_false(ring_look(&out));
	assert_true(put(10, 1));
	assert_true(ring_look(&out));
	shared->tail = 0; /* backwards */
	assert_false(ring_look(&out));
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(empty_and_full, open_ring, close_ring),
		cmocka_unit_test_setup_teardown(laps, open_ring, close_ring),
		cmocka_unit_test_setup_teardown(every_length, open_ring, close_ring),
		cmocka_unit_test_setup_teardown(two_threads, open_ring, close_ring),
		cmocka_unit_test_setup_teardown(old_payload_is_no_record, open_ring, close_ring),
		cmocka_unit_test_setup_teardown(garbage, open_ring, close_ring),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
