/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sys/caught.h"
#include "sys/guard.h"
#include "sys/hang_testing.h"
#include "sys/turn.h"
#include "sys/waiter_testing.h"

static struct turn turn;
static _Atomic int stage;

NO_TSA static void t_try(void **state)
{
	(void)state;
	turn_init(&turn);
	assert_true(turn_try(&turn));
	assert_false(turn_try(&turn)); /* as in a signal handler of the holder */
	turn_give(&turn);
	assert_true(turn_try(&turn));
	turn_give(&turn);
}

static uint8_t *hole(void)
{
	uint8_t *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(p, 4096);
	return p;
}

static int cancel_state(void)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	pthread_setcancelstate(was, NULL);
	return was;
}

/* A brief turn is like any other, but cancellation is held off only once it is
 * prolonged. */
NO_TSA static void t_a_brief_one(void **state)
{
	uint8_t b[8];

	(void)state;
	turn_init(&turn);
	assert_true(turn_try_brief(&turn));
	assert_false(turn_try(&turn));
	assert_false(turn_try_brief(&turn));
	assert_int_equal(cancel_state(), PTHREAD_CANCEL_ENABLE);
	turn_give(&turn);
	assert_int_equal(turn_ended(&turn), 1);
	assert_true(turn_try_brief(&turn));
	turn_prolong(&turn);
	assert_int_equal(cancel_state(), PTHREAD_CANCEL_DISABLE);
	turn_give(&turn);
	assert_int_equal(cancel_state(), PTHREAD_CANCEL_ENABLE);
	assert_int_equal(turn_ended(&turn), 2);
	guard_arm();
	assert_true(turn_try_brief(&turn));
	assert_int_equal(guard_copy(b, hole(), 8), -EFAULT);
	turn_give(&turn);
}

static void *blocker(void *arg)
{
	sigset_t set, now;
	uint8_t b[8];
	int n = *(int *)arg;

	sigemptyset(&set);
	sigaddset(&set, n % 2 ? SIGSEGV : SIGBUS);
	sigaddset(&set, SIGSEGV);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < 600; i++) {
		turn_take(&turn);
		assert_int_equal(guard_copy(b, hole(), 8), -EFAULT);
		if (i == 300) { /* from within a turn, in which they are unblocked */
			guard_arm();
			guard_close(guard_open());
		}
		turn_give(&turn);
		pthread_sigmask(SIG_BLOCK, NULL, &now);
		assert_int_equal(sigismember(&now, SIGSEGV), 1);
		assert_int_equal(sigismember(&now, SIGBUS), n % 2 == 0);
	}
	/* The thread unblocks them. */
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	turn_take(&turn);
	turn_give(&turn);
	pthread_sigmask(SIG_BLOCK, NULL, &now);
	assert_int_equal(sigismember(&now, SIGSEGV), 0);
	return NULL;
}

/* The program's thread blocks the signals: a fault in its turn does not kill it. */
static void t_faults_are_caught(void **state)
{
	pthread_t t;

	(void)state;
	guard_arm();
	turn_init(&turn);
	for (int n = 0; n < 2; n++) {
		assert_int_equal(pthread_create(&t, NULL, blocker, &n), 0);
		assert_int_equal(pthread_join(t, NULL), 0);
	}
}

static bool blocks(int sig)
{
	sigset_t now;

	pthread_sigmask(SIG_BLOCK, NULL, &now);
	return sigismember(&now, sig);
}

NO_TSA static void *toucher(void *arg)
{
	struct turn *inner = arg;
	sigset_t all;
	uint8_t b[8] = { 0 };
	uint64_t word = 0, was;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	guard_arm();
	for (int i = 0; i < 600; i++) {
		turn_take(&turn);
		assert_true(blocks(SIGSEGV) && blocks(SIGBUS));
		assert_int_equal(caught_copy(b, b, 8), 0);
		assert_int_equal(caught_fetch_add(&word, 0, &was), 0);
		assert_int_equal(caught_cmp_swap(&word, word, word, &was), 0);
		assert_true(blocks(SIGSEGV) && blocks(SIGBUS));
		if (i % 4 == 0) {
			unsigned opened = guard_open();

			assert_int_equal(guard_copy(b, b, 8), 0);
			guard_close(opened);
		}
		turn_take(inner);
		assert_true(blocks(SIGSEGV) && blocks(SIGBUS));
		if (i % 3 == 0)
			assert_int_equal(guard_copy(b, hole(), 8), -EFAULT);
		else if (i % 3 == 1)
			assert_int_equal(guard_fetch_add(&word, 1, &was), 0);
		else
			assert_int_equal(guard_cmp_swap(&word, word, 1, &was), 0);
		assert_false(blocks(SIGSEGV) || blocks(SIGBUS));
		turn_give(inner);
		assert_false(blocks(SIGSEGV) || blocks(SIGBUS));
		if (i % 5 == 0) {
			guard_arm();
			guard_close(guard_open());
		}
		assert_int_equal(guard_copy(b, hole(), 8), -EFAULT);
		turn_give(&turn);
		assert_true(blocks(SIGSEGV) && blocks(SIGBUS));
	}
	return NULL;
}

/* A turn that touches no application memory makes no system call. */
static void t_the_first_touch_unblocks(void **state)
{
	struct turn inner;
	pthread_t t;

	(void)state;
	guard_arm();
	turn_init(&turn);
	turn_init(&inner);
	assert_int_equal(pthread_create(&t, NULL, toucher, &inner), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
}

/* A thread that takes turns without touching memory begins to block the signals. */
static void *late_blocker(void *arg)
{
	sigset_t all;
	uint8_t b[8];

	for (int i = 0; i < 300; i++) {
		turn_take(&turn);
		turn_give(&turn);
	}
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	turn_take(&turn);
	assert_int_equal(guard_copy(b, hole(), 8), -EFAULT);
	turn_give(&turn);
	return arg;
}

static void t_a_thread_that_blocks_them_later(void **state)
{
	pthread_t t;

	(void)state;
	guard_arm();
	turn_init(&turn);
	assert_int_equal(pthread_create(&t, NULL, late_blocker, NULL), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
}

static void *taker(void *arg)
{
	(void)arg;
	turn_take(&turn);
	stage = 1;
	turn_give(&turn);
	return NULL;
}

/* Waits until n takers make tries fail. */
static void until_takers_wait(unsigned n)
{
	while (turn.takers != n)
		sched_yield();
}

/* A taker that was too late several times makes tries fail, even if the turn is free. */
NO_TSA static void t_taker_first(void **state)
{
	pthread_t t;

	(void)state;
	turn_init(&turn);
	turn.takers = 1;
	assert_false(turn_try(&turn));
	turn.takers = 0;

	assert_true(turn_try(&turn));
	stage = 0;
	pthread_create(&t, NULL, taker, NULL);
	until_takers_wait(1);
	turn_give(&turn);
	while (!turn_try(&turn))
		;
	assert_int_equal(stage, 1);
	turn_give(&turn);
	pthread_join(t, NULL);
	assert_int_equal(turn.takers, 0);
}

/* Notes in which order the takers got their turn. */
static void *taker_in_line(void *arg)
{
	unsigned *place = arg;
	static unsigned had;

	turn_take(&turn);
	*place = had++;
	turn_give(&turn);
	return NULL;
}

/* A taker that comes later does not overtake one that makes tries fail, however late that
 * one wakes. */
NO_TSA static void t_takers_do_not_overtake(void **state)
{
	enum { LINE = 8 };
	static unsigned place[2 * LINE];
	pthread_t t[2 * LINE];

	(void)state;
	for (int round = 0; round < 2; round++) {
		turn_init(&turn);
		assert_true(turn_try(&turn));
		for (int i = 0; i < LINE; i++) {
			pthread_create(&t[i], NULL, taker_in_line, &place[i]);
			until_takers_wait((unsigned)i + 1);
		}
		turn_give(&turn);
		for (int i = 0; i < LINE; i++) /* they may come at any time */
			pthread_create(&t[LINE + i], NULL, taker_in_line,
				       &place[LINE + i]);
		for (int i = 0; i < 2 * LINE; i++)
			pthread_join(t[i], NULL);
		for (unsigned i = 0; i < LINE; i++)
			assert_int_equal(place[i], i + (unsigned)round * 2 * LINE);
	}
}

/* A taker leaves the turn to the one before it in line, even if that has not woken
 * yet. */
NO_TSA static void t_takers_stand_in_line(void **state)
{
	struct waiter t;

	(void)state;
	turn_init(&turn);
	turn.came = turn.takers = 1; /* a taker that has come for it */
	stage = 0;
	waiter_start(&t, taker, NULL);
	until_takers_wait(2);
	assert_true(waiter_sleeps(&t));
	lock_changed(&turn.served); /* it has had its turn */
	turn.takers--;
	waiter_join(&t);
	assert_int_equal(stage, 1);
	assert_int_equal(turn.takers, 0);
}

/* The child of a fork has none of the waiting threads. */
NO_TSA static void t_nobody_waits_in_a_child(void **state)
{
	(void)state;
	turn_init(&turn);
	turn_take(&turn);
	turn.came = turn.takers = 1;
	turn_forked(&turn);
	turn_give(&turn);
	assert_true(turn_try(&turn));
	turn_give(&turn);
	assert_int_equal(turn.came, turn.served.changes);
}

enum { OFTEN = 300 };

static void *take_often(void *arg)
{
	(void)arg;
	for (int i = 0; i < OFTEN; i++) {
		turn_take(&turn);
		turn_give(&turn);
	}
	stage = 1;
	return NULL;
}

/* Does a thread that comes for the turn go to sleep without making tries fail? (It makes
 * them fail after a while, and this thread may not run meanwhile.) */
NO_TSA static bool is_out_of_the_way(void)
{
	pthread_t t;
	bool yes;

	turn_init(&turn);
	assert_true(turn_try(&turn));
	pthread_create(&t, NULL, taker, NULL);
	while (turn.lock.word != LOCK_AWAITED)
		;
	yes = turn.takers == 0;
	turn_give(&turn);
	pthread_join(t, NULL);
	return yes;
}

/* Takers do not keep pollers from their turns, and however often pollers come, takers get
 * theirs. */
NO_TSA static void t_takers_and_tries_get_on(void **state)
{
	bool any = false;
	pthread_t t;

	(void)state;
	for (int i = 0; i < 50 && !any; i++)
		any = is_out_of_the_way();
	assert_true(any);

	turn_init(&turn);
	stage = 0;
	pthread_create(&t, NULL, take_often, NULL);
	while (stage == 0)
		if (turn_try(&turn))
			turn_give(&turn);
	pthread_join(t, NULL);
}

static void *passer(void *arg)
{
	(void)arg;
	turn_pass(&turn);
	return NULL;
}

NO_TSA static void t_pass_waits(void **state)
{
	struct waiter t;

	(void)state;
	turn_init(&turn);
	turn_take(&turn);
	waiter_start(&t, passer, NULL);
	for (int i = 0; i < 5; i++)
		assert_true(waiter_sleeps(&t));
	turn_give(&turn);
	assert_true(turn_try(&turn));
	waiter_join(&t); /* although another turn has begun */
	turn_give(&turn);
	turn_pass(&turn);
}

static void *pass_often(void *arg)
{
	_Atomic unsigned *passed = arg;

	while (stage == 0) {
		turn_pass(&turn);
		++*passed;
	}
	return NULL;
}

/* A thread that calls turn_pass() all the time, as one that registers memory does, makes
 * no try fail, wherever it is stopped. */
NO_TSA static void t_no_try_fails_for_who_passes(void **state)
{
	enum { ROUNDS = 200, TRIES = 200 };
	_Atomic unsigned passed = 0;
	unsigned failed = 0;
	struct waiter t;

	(void)state;
	turn_init(&turn);
	stage = 0;
	waiter_start(&t, pass_often, &passed);
	while (passed == 0)
		sched_yield();
	for (int i = 0; i < ROUNDS; i++) {
		/* The passing thread begins to wait, and wakes at the end of one of these
		 * turns. */
		for (int k = 0; k < TRIES; k++) {
			if (!turn_try(&turn)) {
				failed++;
				continue;
			}
			if (k == 0)
				assert_true(waiter_sleeps(&t));
			turn_give(&turn);
		}
	}
	stage = 1;
	waiter_join(&t);
	assert_int_equal(failed, 0);
}

enum { REGIONS = 20000 };

static _Atomic(int *) where;

static void *look_at_it(void *arg)
{
	int *seen = arg;

	while (stage == 0) {
		int *p;

		if (!turn_try(&turn))
			continue;
		p = atomic_load_explicit(&where, memory_order_acquire);
		for (int i = 0; p && i < 20; i++)
			*seen += *(volatile int *)p == 1 ? 0 : 1;
		turn_give(&turn);
	}
	return NULL;
}

/* Once turn_pass() returns, no turn sees what was made unreachable before it. */
static void t_after_passing_nobody_is_inside(void **state)
{
	int seen[3] = { 0 };
	pthread_t t[3];

	(void)state;
	turn_init(&turn);
	stage = 0;
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, look_at_it, &seen[i]);
	for (int i = 0; i < REGIONS; i++) {
		int *p = malloc(sizeof(*p));

		*p = 1;
		atomic_store(&where, p);
		atomic_store(&where, NULL);
		turn_pass(&turn);
		*p = 0;
		free(p);
	}
	stage = 1;
	for (int i = 0; i < 3; i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(seen[i], 0);
	}
}

static void *cancelled(void *arg)
{
	(void)arg;
	turn_take(&turn);
	pthread_cancel(pthread_self());
	pthread_testcancel();
	stage = 1;
	turn_give(&turn);
	pthread_testcancel();
	return NULL;
}

/* pthread_cancel() ends the holder only after it has given the turn. */
NO_TSA static void t_cancel_waits(void **state)
{
	void *how;
	pthread_t t;

	(void)state;
	turn_init(&turn);
	stage = 0;
	pthread_create(&t, NULL, cancelled, NULL);
	pthread_join(t, &how);
	assert_ptr_equal(how, PTHREAD_CANCELED);
	assert_int_equal(stage, 1);
	assert_true(turn_try(&turn));
	turn_give(&turn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_try),
		cmocka_unit_test(t_a_brief_one),
		cmocka_unit_test(t_faults_are_caught),
		cmocka_unit_test(t_the_first_touch_unblocks),
		cmocka_unit_test(t_a_thread_that_blocks_them_later),
		cmocka_unit_test(t_taker_first),
		cmocka_unit_test(t_takers_do_not_overtake),
		cmocka_unit_test(t_takers_stand_in_line),
		cmocka_unit_test(t_nobody_waits_in_a_child),
		cmocka_unit_test(t_takers_and_tries_get_on),
		cmocka_unit_test(t_pass_waits),
		cmocka_unit_test(t_no_try_fails_for_who_passes),
		cmocka_unit_test(t_after_passing_nobody_is_inside),
		cmocka_unit_test(t_cancel_waits),
	};

	hang_fails();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
