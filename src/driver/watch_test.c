/* SPDX-License-Identifier: BSD-2-Clause */
/* Which thread takes input in, in virtual time: one program, one kind of input and the
 * engine thread, in steps of a microsecond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "driver/watch.h"

enum { US = 1000, SEC_US = 1000000, WAKE_US = 5 };
/* The longest time that input may wait. */
enum { WORST_US = (WATCH_LOOK_NS + WAKE_UP_NS) / US };

/* A program, a peer that sends it input, and what the engine thread does. */
struct world {
	struct watch w;
	uint64_t us;		   /* the current time */
	uint64_t slept, polled;	   /* ns */
	uint64_t wakes_at;	   /* us; 0: the thread sleeps */
	bool rang, armed, pending; /* pending: input that no thread has taken in */
	bool wanted;		   /* input counts as late if the thread takes it in */
	uint64_t since, sum, worst;
	unsigned inputs, rings, looks;
	uint64_t taken_at; /* us; time of the last input that was taken in */
	unsigned phase;
};

static void take(struct world *x)
{
	uint64_t us = x->us - x->since;

	x->pending = false;
	x->taken_at = x->us;
	x->sum += us;
	x->inputs++;
	if (us > x->worst)
		x->worst = us;
}

static void arrive(struct world *x)
{
	if (x->pending)
		return;
	x->pending = true;
	x->since = x->us;
	if (!x->w.left && !x->wakes_at) {
		x->rang = true;
		x->wakes_at = x->us + WAKE_US;
	}
}

static void poll_now(struct world *x)
{
	x->polled = x->us * US;
	if (x->pending)
		take(x);
}

static void thread(struct world *x)
{
	struct watch_seen s = { x->us * US, x->slept, x->polled, x->armed };
	const bool left = x->w.left;
	bool late = false;

	if (!x->wakes_at && left && (x->armed || s.now >= x->slept + WATCH_LOOK_NS))
		x->wakes_at = x->us;
	if (!x->wakes_at || x->us < x->wakes_at)
		return;
	x->wakes_at = 0;
	x->rings += x->rang;
	x->looks += !x->rang;
	if (watch_takes_turn(&s, !left, false)) {
		late = x->pending && x->wanted;
		if (x->pending)
			take(x);
		watch_see(&x->w, &s, x->rang, late);
	} else {
		watch_served(&x->w);
	}
	x->rang = x->armed = false;
	x->slept = s.now;
}

/* Runs the program for a second of virtual time. */
static struct world run(void (*program)(struct world *x), bool wanted)
{
	struct world x = { .us = SEC_US, .wanted = wanted };

	for (x.slept = x.us * US; x.us < 2 * SEC_US; x.us++) {
		program(&x);
		thread(&x);
	}
	return x;
}

/* --- programs --------------------------------------------------------------------- */

static void ping_pong(struct world *x)
{
	poll_now(x);
	if (x->us % 2 == 0)
		arrive(x);
}

static void two_pollers(void **state)
{
	(void)state;
	for (int wanted = 0; wanted < 2; wanted++) {
		struct world x = run(ping_pong, wanted);

		assert_true(x.w.left);
		assert_true(x.worst <= 1);
		assert_in_range(x.rings, 1, 2);
		assert_true(x.looks <= 1001);
	}
}

/* The peer answers 8 us after a message was taken in. The program polls for 3 us and
 * then reads the memory into which the next message is written, without polling. */
static void memory(struct world *x)
{
	if (!x->pending && x->us - x->taken_at < 3)
		poll_now(x);
	if (!x->pending && x->us - x->taken_at > 8)
		arrive(x);
}

static void one_that_spins_on_memory(void **state)
{
	struct world x = run(memory, true);

	(void)state;
	assert_true(x.sum / x.inputs <= 2 * WAKE_US);
	assert_true(x.worst <= WORST_US);
	assert_true(x.inputs > 60000);
}

/* Such input can only be SENDs, which a program sees by polling only: it is left to the
 * program. */
static void sparse(struct world *x)
{
	if (x->us % 10 == 0)
		poll_now(x);
	if (x->us % 5000 == 0)
		arrive(x);
}

static void one_that_polls_slowly(void **state)
{
	struct world x = run(sparse, true);

	(void)state;
	assert_true(x.w.left);
	assert_true(x.worst <= 10);
	assert_true(x.rings <= 1);
}

static void channel(struct world *x)
{
	if (!x->pending && x->us == x->taken_at + 4) {
		poll_now(x);
		x->armed = true;
	}
	if (!x->pending && x->us - x->taken_at == 10)
		arrive(x);
	else if (!x->taken_at && x->us % SEC_US == 0)
		arrive(x);
}

static void one_that_blocks_in_a_channel(void **state)
{
	struct world x = run(channel, true);

	(void)state;
	assert_false(x.w.left);
	assert_int_equal(x.worst, WAKE_US);
}

static void crowd(struct world *x)
{
	if (x->us % 20 == 0)
		poll_now(x);
	arrive(x);
}

static void sixteen_senders(void **state)
{
	struct world x = run(crowd, false);

	(void)state;
	assert_true(x.w.left);
	assert_true(x.worst <= 20);
	assert_true(x.rings <= 2);
}

/* The program has its processor for 3 ms out of 6 ms. */
static void shared(struct world *x)
{
	if (x->us / 3000 % 2)
		poll_now(x);
	arrive(x);
}

static void more_threads_than_processors(void **state)
{
	struct world x = run(shared, false);

	(void)state;
	assert_true(x.worst <= WORST_US);
	/* While the program is away the thread watches the rings, until the program is
	 * back. */
	assert_true(x.rings <= 2 * 167 + 3000 * 167 / WAKE_US);
	x = run(shared, true);
	assert_true(x.worst <= WORST_US);
}

/* The program polls all the time, but other threads take its processor for 200 us in
 * every 5 ms. */
static void disturbed(struct world *x)
{
	if (x->us % 5000 >= 200)
		poll_now(x);
	if (x->us % 2 == 0)
		arrive(x);
}

static void one_that_is_disturbed(void **state)
{
	struct world x = run(disturbed, true);

	(void)state;
	assert_true(x.worst <= 200 + WAKE_US);
	/* Such short absences are no reason to watch the rings for the program. */
	assert_true(x.rings <= 2 * 200);
}

/* The program waits long at its memory for each of a few messages; its polls are for its
 * own requests. */
static void sparse_memory(struct world *x)
{
	if (!x->pending && x->us - x->taken_at < 3)
		poll_now(x);
	if (!x->pending && x->us - x->taken_at > 5000)
		arrive(x);
}

static void one_that_waits_at_its_memory(void **state)
{
	struct world x = run(sparse_memory, true);

	(void)state;
	assert_true(x.worst <= WORST_US);
	assert_true(x.sum / x.inputs <= WATCH_LOOK_NS / US / 10);
}

/* The program computes for 5 ms, and then polls for 1 ms. */
static void computes(struct world *x)
{
	if (x->us % 6000 < 1000)
		poll_now(x);
	if (x->us % 100 == 0)
		arrive(x);
}

static void one_that_computes(void **state)
{
	struct world x = run(computes, true);

	(void)state;
	assert_true(x.worst <= WORST_US);
	assert_true(x.sum / x.inputs <= 2 * WAKE_US);
}

/* --- rules ------------------------------------------------------------------------- */

static void see(struct watch *w, uint64_t now, uint64_t polled, bool armed, bool rang,
		bool late)
{
	const struct watch_seen s = { now, now - WATCH_LOOK_NS, polled, armed };

	watch_see(w, &s, rang, late);
}

static void what_is_armed_is_watched(void **state)
{
	const uint64_t t = 5000000;
	struct watch w = { 0 };

	(void)state;
	see(&w, t, t, false, true, false);
	assert_true(w.left);
	see(&w, t, t, true, false, false);
	assert_false(w.left);
	see(&w, t + WATCH_LOOK_NS - 1, t + WATCH_LOOK_NS - 1, false, true, false);
	assert_false(w.left);
	see(&w, t + WATCH_LOOK_NS, t + WATCH_LOOK_NS, false, true, false);
	assert_true(w.left);
}

/* After late input the thread watches twice as long each time, until the program is in
 * time again. */
static void what_was_late_is_watched_for_a_while(void **state)
{
	uint64_t t = 5000000, stay = WATCH_LOOK_NS;
	struct watch w = { .left = true };

	(void)state;
	see(&w, t, t - WAKE_UP_NS + 1, false, false, true);
	assert_true(w.left); /* a polling program would have taken the input in time */
	for (int i = 0; i < 10; i++) {
		see(&w, t, t - WAKE_UP_NS, false, false, true);
		assert_false(w.left);
		/* Arming the rings does not shorten that. */
		see(&w, t, t, true, false, false);
		t += stay;
		see(&w, t - 1, t - 1, false, true, false);
		assert_false(w.left);
		see(&w, t, t, false, true, false);
		assert_true(w.left);
		if (stay < WATCH_LOOK_NS << WATCH_LATE_MAX)
			stay *= 2;
	}
	for (int i = 0; i < WATCH_SERVED - 1; i++)
		watch_served(&w);
	see(&w, t, t - WAKE_UP_NS, false, false, true);
	see(&w, t + stay - 1, t + stay - 1, false, true, false);
	assert_false(w.left);
	t += stay;
	see(&w, t, t, false, true, false);
	for (int i = 0; i < WATCH_SERVED; i++)
		watch_served(&w);
	see(&w, t, t - WAKE_UP_NS, false, false, true);
	see(&w, t + WATCH_LOOK_NS, t + WATCH_LOOK_NS, false, true, false);
	assert_true(w.left);
}

static void who_does_not_poll_any_more_leaves_nothing(void **state)
{
	const uint64_t t = 5000000;
	struct watch w = { .left = true };

	(void)state;
	see(&w, t, t - WATCH_LOOK_NS, false, false, false);
	assert_true(w.left); /* the program has polled since the thread went to sleep */
	see(&w, t, t - WATCH_LOOK_NS - 1, false, false, false);
	assert_false(w.left);
	see(&w, t, t - WAKE_UP_NS, false, true, false);
	assert_false(w.left);
	see(&w, t, t, false, false, false); /* the ring did not wake the thread */
	assert_false(w.left);
}

static void who_is_called_takes_the_turn(void **state)
{
	const uint64_t t = 5000000;
	const struct watch_seen near = { .now = t, .polled = t - WAKE_UP_NS + 1 },
				far = { .now = t, .polled = t - WAKE_UP_NS },
				armed = { .now = t, .polled = t, .armed = true };

	(void)state;
	assert_false(watch_takes_turn(&near, false, false));
	assert_true(watch_takes_turn(&near, true, false));
	assert_true(watch_takes_turn(&near, false, true));
	assert_true(watch_takes_turn(&far, false, false));
	assert_true(watch_takes_turn(&armed, false, false));
}

/* --- patience ---------------------------------------------------------------------- */

static void a_poller_lets_go(void **state)
{
	const uint64_t t = 1000000;
	struct spin s = { 0 };

	(void)state;
	assert_int_equal(spin_polled(&s, true, t), SPIN_ON);
	assert_int_equal(spin_polled(&s, false, t + SPIN_NS - 1), SPIN_ON);
	assert_int_equal(spin_polled(&s, false, t + SPIN_NS), SPIN_YIELD);
	spin_yielded(&s, t + SPIN_NS, t + SPIN_NS + 500);
	assert_int_equal(spin_polled(&s, false, t + 2 * SPIN_NS), SPIN_ON);
	assert_int_equal(spin_polled(&s, false, t + 2 * SPIN_NS + 500), SPIN_YIELD);
}

static void on_a_shared_processor_sooner(void **state)
{
	uint64_t t = 1000000;
	struct spin s = { 0 };

	(void)state;
	spin_yielded(&s, t - SPIN_YIELD_MAX_NS - 1, t);
	assert_int_equal(spin_polled(&s, false, t + SPIN_SHARED_NS - 1), SPIN_ON);
	assert_int_equal(spin_polled(&s, false, t + SPIN_SHARED_NS), SPIN_YIELD);
	t += SPIN_SHARED_NS;
	spin_yielded(&s, t, t + SPIN_YIELD_MAX_NS);
	t += SPIN_YIELD_MAX_NS;
	assert_int_equal(spin_polled(&s, false, t + SPIN_NS - 1), SPIN_ON);
}

static void where_others_use_up_their_slices_it_sleeps(void **state)
{
	uint64_t t = 1000000, end;
	struct spin s = { 0 };

	(void)state;
	spin_yielded(&s, t - SPIN_SLICE_NS - 1, t);
	end = t + SPIN_NAPS_NS;
	for (; t + SPIN_NAP_NS < end; t += SPIN_NAP_NS) {
		assert_int_equal(spin_polled(&s, false, t + SPIN_NAP_NS - 1), SPIN_ON);
		t += SPIN_NAP_NS;
		assert_int_equal(spin_polled(&s, false, t), SPIN_NAP);
		spin_slept(&s, t + SPIN_NAP_NS);
	}
	assert_int_equal(spin_polled(&s, true, t), SPIN_ON);
	assert_int_equal(spin_polled(&s, false, end + SPIN_SHARED_NS), SPIN_YIELD);
	spin_yielded(&s, end, end + 300);
	assert_int_equal(spin_polled(&s, false, end + SPIN_NS), SPIN_ON);
}

/* A yield may never reach the thread that the poller waits for: other pollers get the
 * processor, and yield as well. */
static void who_yields_in_vain_sleeps(void **state)
{
	uint64_t t = 1000000;
	struct spin s = { 0 };

	(void)state;
	for (int round = 0; round < 2; round++) {
		assert_int_equal(spin_polled(&s, true, t), SPIN_ON);
		for (int i = 0; i < SPIN_VAIN; i++) {
			t += SPIN_NS;
			assert_int_equal(spin_polled(&s, false, t), SPIN_YIELD);
			spin_yielded(&s, t, t + SPIN_YIELD_MAX_NS + 1);
			t += SPIN_YIELD_MAX_NS + 1;
		}
		for (int i = 0; i < 1000; i++) {
			assert_int_equal(spin_polled(&s, false, t + SPIN_NAP_NS - 1),
					 SPIN_ON);
			t += SPIN_NAP_NS;
			assert_int_equal(spin_polled(&s, false, t), SPIN_NAP);
			spin_slept(&s, t + SPIN_NAP_NS);
			t += SPIN_NAP_NS;
		}
	}
}

/* A poller that has its processor to itself keeps no other from running. */
static void who_is_alone_does_not_sleep(void **state)
{
	uint64_t t = 1000000;
	struct spin s = { 0 };

	(void)state;
	for (int i = 0; i < 1000; i++) {
		t += SPIN_NS;
		assert_int_equal(spin_polled(&s, false, t), SPIN_YIELD);
		spin_yielded(&s, t, t + SPIN_YIELD_MAX_NS);
		t += SPIN_YIELD_MAX_NS;
	}
}

/* A thread that misses the turn again and again sleeps, so that the turn's holder gets a
 * processor even if this thread has real-time priority. */
static void who_misses_for_ever_sleeps(void **state)
{
	unsigned yields = 0, n = 0;

	(void)state;
	assert_int_equal(spin_missed(0), SPIN_YIELD); /* a turn has ended since */
	while (spin_missed(++n) != SPIN_NAP)
		yields += spin_missed(n) == SPIN_YIELD;
	assert_int_equal(yields, SPIN_MISS_YIELDS - 1);
	assert_int_equal(n, SPIN_MISSES * SPIN_MISS_YIELDS);
	assert_int_equal(spin_missed(n + 1), SPIN_ON);
	assert_int_equal(spin_missed(n + SPIN_MISSES), SPIN_NAP);
}

/* The thread takes bursts in. */
static void in_bulk_it_stays_up(void **state)
{
	struct bulk b = { 0 };
	uint64_t t = SEC_US;
	unsigned round = 0;

	(void)state;
	bulk_took(&b, BULK - 1, t);
	assert_false(bulk_goes_on(&b, t));
	bulk_took(&b, BULK, t);
	assert_true(bulk_goes_on(&b, t));
	bulk_took(&b, 1, t + WAKE_UP_NS / 2); /* few, but no sign of an end */
	assert_true(bulk_goes_on(&b, t + WAKE_UP_NS - 1));
	assert_false(bulk_goes_on(&b, t + WAKE_UP_NS));
	bulk_took(&b, BULK, t);
	bulk_yielded(&b, t, t + SPIN_YIELD_MAX_NS); /* to nobody */
	assert_true(bulk_goes_on(&b, t + 1));
	bulk_yielded(&b, t, t + SPIN_YIELD_MAX_NS + 1);
	assert_false(bulk_goes_on(&b, t + 1));
	bulk_took(&b, BULK, t);
	assert_true(bulk_goes_on(&b, t));
	bulk_yielded(&b, t, t + SPIN_SLICE_NS + 1); /* to one that computes */
	t += SPIN_SLICE_NS + SPIN_NAPS_NS;
	bulk_took(&b, BULK, t);
	assert_false(bulk_goes_on(&b, t));
	bulk_took(&b, BULK, t + 1);
	assert_true(bulk_goes_on(&b, t + 1));
	for (unsigned i = 0; i < 10 * BULK_LOOKS; i++)
		round += bulk_looks_round(&b);
	assert_int_equal(round, 10);
}

/* --- a thread that waits for an event --- */

struct waiter {
	uint64_t took;
	unsigned looks, in_vain, sleeps, away;
	unsigned vain, rests;
};

/* An event comes `after` ns after the thread began to wait; a wake-up takes 20 us. */
static void wait_for(struct waiter *x, uint64_t after)
{
	const enum wait_how how = wait_how(x->took, x->rests);
	const bool looks = how == WAIT_LOOK, in_vain = looks && after > WAKE_UP_NS;

	x->looks += looks;
	x->in_vain += in_vain;
	x->sleeps += how == WAIT_SLEEP;
	x->away += how == WAIT_AWAY;
	if (looks)
		x->rests = wait_looked(&x->vain, in_vain);
	else if (x->rests)
		x->rests--;
	x->took = after + (looks && !in_vain ? 1 : 20 * US);
}

static struct waiter wait_often(uint64_t after)
{
	struct waiter x = { 0 };

	for (int i = 0; i < 1000; i++)
		wait_for(&x, after);
	return x;
}

static void who_waits_briefly_looks(void **state)
{
	(void)state;
	assert_int_equal(wait_often(0).looks, 999);
	assert_int_equal(wait_often(WAKE_UP_NS).looks, 999);
	assert_int_equal(wait_often(WAKE_UP_NS).in_vain, 0);
}

static void who_looks_in_vain_sleeps(void **state)
{
	struct waiter x = wait_often(WAKE_UP_NS + 1);

	(void)state;
	assert_in_range(x.in_vain, 1, 15); /* of 1,000 */
	assert_int_equal(x.in_vain, x.looks);
	for (int i = 0; i < 130; i++)
		wait_for(&x, 10 * US);
	assert_int_equal(wait_how(x.took, x.rests), WAIT_LOOK);
	assert_int_equal(x.vain, 0);
	assert_int_equal(wait_often(WAIT_LOOK_NS).looks, 0);
	assert_int_equal(wait_often(WAIT_LOOK_NS).sleeps, 999);
}

static void who_waits_long_serves_nobody(void **state)
{
	struct waiter x = wait_often(WATCH_LOOK_NS);

	(void)state;
	assert_int_equal(x.away, 1000);
	wait_for(&x, 10 * US); /* the first after a pause */
	wait_for(&x, 10 * US);
	assert_int_equal(x.looks, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_pollers),
		cmocka_unit_test(one_that_spins_on_memory),
		cmocka_unit_test(one_that_polls_slowly),
		cmocka_unit_test(one_that_blocks_in_a_channel),
		cmocka_unit_test(sixteen_senders),
		cmocka_unit_test(more_threads_than_processors),
		cmocka_unit_test(one_that_is_disturbed),
		cmocka_unit_test(one_that_waits_at_its_memory),
		cmocka_unit_test(one_that_computes),
		cmocka_unit_test(what_is_armed_is_watched),
		cmocka_unit_test(what_was_late_is_watched_for_a_while),
		cmocka_unit_test(who_does_not_poll_any_more_leaves_nothing),
		cmocka_unit_test(who_is_called_takes_the_turn),
		cmocka_unit_test(a_poller_lets_go),
		cmocka_unit_test(on_a_shared_processor_sooner),
		cmocka_unit_test(where_others_use_up_their_slices_it_sleeps),
		cmocka_unit_test(who_yields_in_vain_sleeps),
		cmocka_unit_test(who_is_alone_does_not_sleep),
		cmocka_unit_test(who_misses_for_ever_sleeps),
		cmocka_unit_test(in_bulk_it_stays_up),
		cmocka_unit_test(who_waits_briefly_looks),
		cmocka_unit_test(who_looks_in_vain_sleeps),
		cmocka_unit_test(who_waits_long_serves_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
