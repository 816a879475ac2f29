/* SPDX-License-Identifier: BSD-2-Clause */
/* watch.c - see watch.h. */
#include "driver/watch.h"

static void watch_until(struct watch *w, uint64_t until)
{
	w->left = false;
	if (w->not_before < until)
		w->not_before = until;
}

/* Leaving the input to pollers was in vain: the program looks at its memory instead of
 * polling, or had no processor. */
static void was_late(struct watch *w, uint64_t now)
{
	watch_until(w, now + ((uint64_t)WATCH_LOOK_NS << w->late));
	if (w->late < WATCH_LATE_MAX)
		w->late++;
	w->served = 0;
}

void watch_see(struct watch *w, const struct watch_seen *s, bool rang, bool late)
{
	if (s->armed)
		watch_until(w, s->now + WATCH_LOOK_NS);
	else if (!w->left)
		w->left = rang && s->now >= w->not_before && watch_is_first(s);
	else if (late && !watch_is_first(s))
		was_late(w, s->now);
	else if (s->polled < s->slept && s->polled + WATCH_LOOK_NS <= s->now)
		watch_until(w, s->now);
}

enum spin_next spin_polled(struct spin *s, bool found, uint64_t now)
{
	const bool naps = now < s->nap_until || s->vain >= SPIN_VAIN;
	const uint64_t most = naps ? SPIN_NAP_NS : s->shared ? SPIN_SHARED_NS : SPIN_NS;

	if (found) {
		s->busy = now;
		s->vain = 0;
	}
	if (found || now - s->busy < most)
		return SPIN_ON;
	return naps ? SPIN_NAP : SPIN_YIELD;
}

void spin_yielded(struct spin *s, uint64_t before, uint64_t after)
{
	s->busy = after;
	s->shared = after - before > SPIN_YIELD_MAX_NS;
	s->vain += s->shared;
	if (after - before > SPIN_SLICE_NS)
		s->nap_until = after + SPIN_NAPS_NS;
}

void spin_slept(struct spin *s, uint64_t after)
{
	s->busy = after;
}
