/* SPDX-License-Identifier: BSD-2-Clause */
/* A timer for a missing answer expires only when all input that has arrived was taken
 * in. */
#include "driver/engine_fix.h"

static void fails_if_silent(int i, uint64_t at)
{
	turn_is_held(t.e->core);
	t.nic->core.round.heard = 0;
	t.fake[i].silence = at;
	t.fake[i].failed = false;
	wants(i, 1);
	engine_turn(t.e, at - 1, false);
	assert_false(t.fake[i].failed);
}

/* An answer lies in the socket, behind other packets, when the timeout expires:
 * whichever way the turn was taken, all input is read before the timer counts. */
static void silence_is_judged_when_all_is_heard(void **state)
{
	uint64_t at = 100 * US;

	(void)state;
	turn_is_held(t.e->core);
	for (int later = 0; later < 2; later++, at += 100 * US) {
		fails_if_silent(0, at);
		t.waiting = 5 * LINK_RX;
		while (t.waiting) {
			assert_true(engine_turn(t.e, at, later).next <= at);
			assert_false(t.fake[0].failed);
		}
		for (int i = 0; i < 3; i++)
			engine_turn(t.e, at, later);
		assert_true(t.fake[0].failed);
	}
	all_went_out();
}

/* Packets that arrive while the input is read do not delay the timeout further. */
static void an_endless_stream_is_no_answer(void **state)
{
	const uint64_t at = 100 * US;

	(void)state;
	turn_is_held(t.e->core);
	fails_if_silent(0, at);
	for (int i = 0; i < 100; i++) {
		t.waiting = LINK_RX;
		engine_turn(t.e, at + (uint64_t)i, i % 2);
	}
	assert_true(t.fake[0].failed);
}

/* Many timers may have expired: they are not asked in each turn that reads input. */
static void timers_are_asked_when_all_is_heard(void **state)
{
	const uint64_t at = 100 * US;
	unsigned before;

	(void)state;
	turn_is_held(t.e->core);
	fails_if_silent(0, at);
	t.waiting = 20 * LINK_RX;
	engine_turn(t.e, at, false);
	before = t.fake[0].runs;
	while (t.waiting)
		engine_turn(t.e, at, false);
	assert_int_equal(t.fake[0].runs, before);
	for (int i = 0; i < 3; i++)
		engine_turn(t.e, at, false);
	assert_true(t.fake[0].failed);
}

/* A turn that only posts reads no input, so it expires no such timer. */
static void who_does_not_look_does_not_judge(void **state)
{
	const uint64_t at = 100 * US;

	(void)state;
	turn_is_held(t.e->core);
	fails_if_silent(0, at);
	for (int i = 0; i < 5; i++) {
		wants(0, 1);
		assert_true(engine_output(t.e, &t.fake[0].qp, at, 64).next <= at);
		engine_flush(t.e, at);
	}
	assert_false(t.fake[0].failed);
	engine_turn(t.e, at, false);
	engine_turn(t.e, at, false);
	assert_true(t.fake[0].failed);
}

/* The engine's thread, which may sleep next, leaves no timer to pollers. */
static void the_thread_hears_all_at_once(void **state)
{
	const uint64_t at = 100 * US;

	(void)state;
	turn_is_held(t.e->core);
	fails_if_silent(0, at);
	t.waiting = 1;
	assert_int_equal(engine_whole_turn(t.e, at).socket, 1);
	fails_if_silent(0, 2 * at);
	engine_whole_turn(t.e, 2 * at);
	assert_true(t.fake[0].failed);
}

/* Posts had waited for a poller that did not come, also where a timer expires then. */
static void the_thread_finds_posts_beside_a_timer(void **state)
{
	const uint64_t at = 100 * US;

	(void)state;
	turn_is_held(t.e->core);
	fails_if_silent(0, at);
	engine_gather(t.e, &t.fake[1].qp);
	assert_true(engine_whole_turn(t.e, at).gathered);
	assert_true(t.fake[0].failed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(silence_is_judged_when_all_is_heard),
		TEST(an_endless_stream_is_no_answer),
		TEST(timers_are_asked_when_all_is_heard),
		TEST(who_does_not_look_does_not_judge),
		TEST(the_thread_hears_all_at_once),
		TEST(the_thread_finds_posts_beside_a_timer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
