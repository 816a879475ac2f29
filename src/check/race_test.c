/* SPDX-License-Identifier: BSD-2-Clause */
/* Which accesses meet (race.h): each edge of docs/dev/races.md once with it, where
 * nothing meets, and once without it. */
#include "check/race.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MOST = 64, HERE = 1000, LEN = 100 };

static struct race *r;
static uint32_t p, q; /* two queues */
static uint64_t met_number, met_tag;

static int begin(void **state)
{
	(void)state;
	r = race_new(MOST);
	p = race_queue(r);
	q = race_queue(r);
	return 0;
}

static int end(void **state)
{
	(void)state;
	race_free(r);
	return 0;
}

static struct race_access access_of(uint32_t queue, enum race_kind kind)
{
	return (struct race_access){
		.space = 7, .at = HERE, .len = LEN, .queue = queue, .kind = kind
	};
}

/* Posts a request with one access that stays open. */
static uint64_t post(uint32_t queue, enum race_kind kind)
{
	const struct race_access a = access_of(queue, kind);
	const uint64_t n = race_post(r);

	race_open(r, &a);
	return n;
}

static unsigned meets(uint32_t queue, enum race_kind kind)
{
	const struct race_access a = access_of(queue, kind);

	race_post(r);
	return race_meet(r, &a, NULL, NULL);
}

/* --- what conflicts -------------------------------------------------------------- */

static void two_queues_meet(void **state)
{
	static const struct {
		enum race_kind first, then;
		unsigned meet;
	} rows[] = {
		{ RACE_WRITES, RACE_WRITES, 1 },  { RACE_WRITES, RACE_READS, 1 },
		{ RACE_READS, RACE_WRITES, 1 },	  { RACE_READS, RACE_READS, 0 },
		{ RACE_WRITES, RACE_ATOMIC, 1 },  { RACE_ATOMIC, RACE_WRITES, 1 },
		{ RACE_ATOMIC, RACE_ATOMIC, 0 },  { RACE_ATOMIC, RACE_READS, 0 },
		{ RACE_ANSWERS, RACE_READS, 1 },  { RACE_READS, RACE_ANSWERS, 1 },
		{ RACE_ANSWERS, RACE_WRITES, 1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint64_t n = post(p, rows[i].first);

		assert_int_equal(meets(q, rows[i].then), rows[i].meet);
		race_done(r, p, n);
		assert_int_equal(meets(q, rows[i].then), 0);
	}
	(void)state;
}

static void bytes_overlap(void **state)
{
	static const struct {
		uint64_t at, len;
		unsigned meet;
	} rows[] = {
		{ HERE - 1, 1, 0 },	   { HERE - 1, 2, 1 },
		{ HERE + LEN, 1, 0 },	   { HERE + LEN - 1, 1, 1 },
		{ HERE + 5, 0, 0 },	   { 0, 1ull << 32, 1 },
		{ UINT64_MAX, 1, 0 },	   { UINT64_MAX, 2, 0 /* it wraps */ },
		{ HERE + 50, 1 << 20, 1 }, { 0, HERE, 0 },
	};
	struct race_access a = access_of(q, RACE_WRITES);

	(void)state;
	post(p, RACE_WRITES);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		a.at = rows[i].at;
		a.len = rows[i].len;
		assert_int_equal(race_meet(r, &a, NULL, NULL), rows[i].meet);
	}
	a = access_of(q, RACE_WRITES);
	a.space++;
	assert_int_equal(race_meet(r, &a, NULL, NULL), 0);
}

static void keep(const struct race_access *open, uint64_t number, void *arg)
{
	(void)arg;
	met_tag = open->tag;
	met_number = number;
}

static void names_the_newest_of_a_queue(void **state)
{
	struct race_access a = access_of(p, RACE_WRITES);
	uint64_t n = 0;

	(void)state;
	for (a.tag = 1; a.tag < 10; a.tag++) {
		n = race_post(r);
		race_open(r, &a);
	}
	a.queue = q;
	assert_int_equal(race_meet(r, &a, keep, NULL), 1);
	assert_int_equal(met_tag, 9);
	assert_int_equal(met_number, n);
}

/* --- what orders ----------------------------------------------------------------- */

static void one_queue_is_ordered(void **state)
{
	(void)state;
	post(p, RACE_WRITES);
	assert_int_equal(meets(p, RACE_WRITES), 0);
	assert_int_equal(meets(p, RACE_READS), 0);
	assert_int_equal(meets(q, RACE_READS), 1);
}

/* 10.8.3: a completion says that all requests before it on its queue are complete. */
static void a_completion_covers_what_was_before(void **state)
{
	uint64_t first = post(p, RACE_WRITES), second = post(q, RACE_WRITES), third;
	uint32_t other = race_queue(r);

	(void)state;
	third = race_post(r);
	race_done(r, p, first - 1);
	assert_int_equal(meets(other, RACE_WRITES), 2);
	race_done(r, p, third);
	assert_int_equal(meets(other, RACE_WRITES), 1);
	race_done(r, q, second);
	assert_int_equal(meets(other, RACE_WRITES), 0);
	race_done(r, q, 1); /* an older one: nothing changes */
	assert_int_equal(meets(other, RACE_WRITES), 0);
}

/* 9.5: who has the message has what was written before it. */
static void a_message_tells_of_writes_before(void **state)
{
	uint64_t w = post(p, RACE_WRITES);

	(void)state;
	race_tell(r, q, w + 1); /* on another queue: says nothing */
	assert_int_equal(meets(q, RACE_WRITES), 1);
	race_tell(r, p, race_post(r));
	assert_int_equal(meets(q, RACE_WRITES), 0);
	post(p, RACE_WRITES); /* behind it */
	assert_int_equal(meets(q, RACE_WRITES), 1);
}

/* C10-97: but not of READs, if it does not wait for them. */
static void a_message_tells_of_reads_behind_a_fence(void **state)
{
	uint64_t n;

	(void)state;
	post(p, RACE_READS);
	race_tell(r, p, race_post(r));
	assert_int_equal(meets(q, RACE_WRITES), 1);
	n = race_post(r);
	race_fence(r, p, n);
	assert_int_equal(meets(q, RACE_WRITES), 1); /* it has begun, who knows? */
	race_tell(r, p, n);
	assert_int_equal(meets(q, RACE_WRITES), 0);
}

static void an_answer_needs_a_fence(void **state)
{
	(void)state;
	post(p, RACE_ANSWERS);
	assert_int_equal(meets(p, RACE_READS), 1);
	assert_int_equal(meets(p, RACE_ANSWERS), 0); /* answers come in order */
	race_fence(r, p, race_post(r));
	assert_int_equal(meets(p, RACE_READS), 0);
	assert_int_equal(meets(q, RACE_READS), 1); /* it does not wait for that */
	post(p, RACE_ANSWERS);
	assert_int_equal(meets(p, RACE_READS), 1);
}

static void who_speaks_may_know_everything(void **state)
{
	(void)state;
	post(p, RACE_WRITES);
	post(q, RACE_READS);
	race_heard(r);
	assert_int_equal(meets(p, RACE_WRITES), 0);
	assert_int_equal(meets(q, RACE_WRITES), 0);
	post(p, RACE_WRITES);
	assert_int_equal(meets(q, RACE_WRITES), 1);
}

static void a_queue_ends(void **state)
{
	const struct race_access a = access_of(p, RACE_WRITES);
	const uint64_t n = post(p, RACE_WRITES);

	(void)state;
	assert_true(race_is_open(r, &a, n));
	race_queue_end(r, p);
	assert_false(race_is_open(r, &a, n));
	assert_int_equal(meets(q, RACE_WRITES), 0);
	assert_int_equal(race_queue(r), p); /* another one, in its place */
	assert_int_equal(meets(q, RACE_WRITES), 0);
	race_queue_end(r, 0);
}

/* --- the shadow ------------------------------------------------------------------ */

static void a_full_shadow_forgets_the_oldest(void **state)
{
	struct race_access a = access_of(p, RACE_WRITES);

	(void)state;
	for (unsigned i = 0; i <= MOST; i++) {
		a.at = HERE + i * LEN;
		race_post(r);
		race_open(r, &a);
	}
	assert_int_equal(race_forgotten(r), 1);
	a.queue = q;
	a.at = HERE;
	assert_int_equal(race_meet(r, &a, NULL, NULL), 0);
	a.at = HERE + LEN;
	assert_int_equal(race_meet(r, &a, NULL, NULL), 1);
}

static void many_queues(void **state)
{
	uint32_t last = q;

	(void)state;
	for (uint32_t n; (n = race_queue(r)) != 0;)
		last = n;
	assert_int_equal(last, RACE_QUEUES - 1);
	post(0, RACE_WRITES); /* of a queue that has no place */
	assert_int_equal(meets(q, RACE_WRITES), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(two_queues_meet, begin, end),
		cmocka_unit_test_setup_teardown(bytes_overlap, begin, end),
		cmocka_unit_test_setup_teardown(names_the_newest_of_a_queue, begin, end),
		cmocka_unit_test_setup_teardown(one_queue_is_ordered, begin, end),
		cmocka_unit_test_setup_teardown(a_completion_covers_what_was_before,
						begin, end),
		cmocka_unit_test_setup_teardown(a_message_tells_of_writes_before, begin,
						end),
		cmocka_unit_test_setup_teardown(a_message_tells_of_reads_behind_a_fence,
						begin, end),
		cmocka_unit_test_setup_teardown(an_answer_needs_a_fence, begin, end),
		cmocka_unit_test_setup_teardown(who_speaks_may_know_everything, begin,
						end),
		cmocka_unit_test_setup_teardown(a_queue_ends, begin, end),
		cmocka_unit_test_setup_teardown(a_full_shadow_forgets_the_oldest, begin,
						end),
		cmocka_unit_test_setup_teardown(many_queues, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
