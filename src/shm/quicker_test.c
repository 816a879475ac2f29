/* SPDX-License-Identifier: BSD-2-Clause */
#include "shm/quicker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* A stream of requests; each takes first_ns or second_ns, by the way that it goes. */
struct stream {
	struct quicker t;
	uint64_t now, first_ns, second_ns;
	uint64_t pause_ns; /* ... after every pause_every-th request */
	unsigned pause_every;
	unsigned first, second; /* that went so */
};

static struct stream stream_of(uint64_t first_ns, uint64_t second_ns)
{
	return (struct stream){ .now = 12345,
				.first_ns = first_ns,
				.second_ns = second_ns };
}

static void post_many(struct stream *s, unsigned n)
{
	s->first = s->second = 0;
	for (unsigned i = 1; i <= n; i++) {
		if (quicker_is_due(&s->t))
			quicker_look(&s->t, s->now);
		s->now += s->t.second ? s->second_ns : s->first_ns;
		s->first += !s->t.second;
		s->second += s->t.second;
		if (s->pause_every && i % s->pause_every == 0)
			s->now += s->pause_ns;
	}
}

static void the_quicker_way_is_found(void **state)
{
	struct stream s = stream_of(2000, 300);

	(void)state;
	post_many(&s, 2 * QUICKER_RUN);
	assert_int_equal(s.second, 0);
	post_many(&s, 100000);
	assert_in_range(s.second, 98000, 99999);
	assert_in_range(s.first, QUICKER_RUN, 2000); /* the first way is timed again */
}

static void what_is_hardly_quicker_is_not_taken(void **state)
{
	struct stream s = stream_of(2000, 1600);

	(void)state;
	post_many(&s, 100000);
	assert_in_range(s.second, 100, 5 * QUICKER_RUN);
}

/* A request on the second way takes as long as 2,000 on the first: one is lost by each
 * trial, and trials become rare. */
static void a_trial_ends_with_the_first_that_is_late(void **state)
{
	struct stream s = stream_of(2000, 4000000);

	(void)state;
	post_many(&s, 10000);
	assert_in_range(s.second, 2, 3);
	post_many(&s, 1000000);
	assert_in_range(s.second, 2, 4);
}

/* The peer sleeps from some time on; later it looks again. */
static void a_way_that_becomes_slow_is_left(void **state)
{
	struct stream s = stream_of(2000, 300);

	(void)state;
	post_many(&s, 10000);
	assert_true(s.t.second);
	s.second_ns = 100000;
	post_many(&s, 500);
	assert_in_range(s.second, 1, 2 * QUICKER_LOOK + 8);
	s.second_ns = 300;
	post_many(&s, 20000);
	assert_true(s.t.second);
}

/* The second way is quick for a while, again and again. */
static void a_way_that_is_quick_by_fits_is_left_alone(void **state)
{
	struct stream s = stream_of(2000, 300);
	unsigned second = 0;

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		s.second_ns = s.t.second ? 4000 : 300;
		post_many(&s, 1000);
		second += s.second;
	}
	assert_in_range(second, QUICKER_RUN, 200 * 1000 / 20);
}

/* The program pauses in the run before the first trial: its time counts for nothing. */
static void a_pause_is_not_taken_for_slowness(void **state)
{
	struct stream s = stream_of(2000, 50000);

	(void)state;
	post_many(&s, 50);
	s.now += 1000000000;
	post_many(&s, 10000);
	assert_in_range(s.second, 1, 100);
}

/* Pauses now and then do not end the second way. */
static void pauses_are_not_the_ways_fault(void **state)
{
	struct stream s = stream_of(2000, 300);

	(void)state;
	s.pause_every = 1600;
	s.pause_ns = 1000000;
	post_many(&s, 1000000);
	assert_in_range(s.second, 900000, 1000000);
}

/* The program begins slowly: what a run took then says nothing of the way. */
static void a_slow_start_is_forgotten(void **state)
{
	struct stream s = stream_of(1000000, 500000);

	(void)state;
	post_many(&s, 3 * QUICKER_RUN);
	assert_true(s.t.second);
	s.first_ns = 2000;
	post_many(&s, 100000);
	assert_in_range(s.second, 1, 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_quicker_way_is_found),
		cmocka_unit_test(what_is_hardly_quicker_is_not_taken),
		cmocka_unit_test(a_trial_ends_with_the_first_that_is_late),
		cmocka_unit_test(a_way_that_becomes_slow_is_left),
		cmocka_unit_test(a_way_that_is_quick_by_fits_is_left_alone),
		cmocka_unit_test(a_pause_is_not_taken_for_slowness),
		cmocka_unit_test(pauses_are_not_the_ways_fault),
		cmocka_unit_test(a_slow_start_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
