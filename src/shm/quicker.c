/* SPDX-License-Identifier: BSD-2-Clause */
/* quicker.c - see quicker.h.
 *
 *	 state          | a run ends, or a look finds it late    | next
 *	----------------+----------------------------------------+-----------------------
 *	 the first way  | `left' runs have ended                 | trial
 *	 trial          | it took less than 3/4 of the first way | the second way
 *	                | as soon as it takes longer             | the first way, for
 *	                |                                        | four times as many runs
 *	 the second way | two runs took longer than on the first | the same
 *	                |  way, and not as many in time between  |
 *	                | `stay' runs have ended                 | the first way, once;
 *	                |                                        | `stay' is four times as
 *	                |                                        | long
 *
 * What the first way took may have had pauses of the program in it, so a second way that
 * has just been taken is soon compared again. */
#include "shm/quicker.h"

enum {
	PAUSE_MIN = 2,
	PAUSE_MAX = 4096,
	STAY_MIN = 4,
	STAY_MAX = 256,
	LATE_MAX = 2,
};

static uint16_t four_times(uint16_t n, uint16_t most)
{
	return n < most / 4 ? (uint16_t)(4 * n) : most;
}

static void begin_run(struct quicker *t, uint64_t now)
{
	t->n = 1;
	t->since = now;
}

static void go_first(struct quicker *t, uint16_t runs)
{
	t->second = t->trial = false;
	t->first_ns = UINT64_MAX;
	t->left = runs;
}

static void end_first(struct quicker *t, uint64_t took)
{
	if (took < t->first_ns)
		t->first_ns = took;
	if (--t->left == 0)
		t->second = t->trial = true;
}

static void leave_second(struct quicker *t)
{
	t->pause = four_times(t->pause, PAUSE_MAX);
	t->stay = STAY_MIN;
	go_first(t, t->pause);
}

static void end_second(struct quicker *t)
{
	if (t->late)
		t->late--;
	if (t->trial) {
		t->trial = false;
		t->late = 0;
		t->left = t->stay;
	} else if (--t->left == 0) {
		t->stay = four_times(t->stay, STAY_MAX);
		t->pause = PAUSE_MIN;
		go_first(t, 1);
	}
}

void quicker_look(struct quicker *t, uint64_t now)
{
	const uint64_t took = now - t->since;

	if (!t->since) {
		t->pause = PAUSE_MIN;
		t->stay = STAY_MIN;
		go_first(t, PAUSE_MIN);
		begin_run(t, now);
		return;
	}
	if (t->second && took > (t->trial ? t->first_ns / 4 * 3 : t->first_ns)) {
		if (t->trial || ++t->late == LATE_MAX)
			leave_second(t);
		begin_run(t, now);
		return;
	}
	if (t->n <= QUICKER_RUN)
		return;
	if (t->second)
		end_second(t);
	else
		end_first(t, took);
	begin_run(t, now);
}
