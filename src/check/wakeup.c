/* SPDX-License-Identifier: BSD-2-Clause */
/* wakeup.c - a CQ that is armed and not polled again: lost-wakeup.
 *
 * urnic raises an event for an entry that was there when the CQ was armed, if no event
 * has told of it (cq_arm()). By the specification only an entry that is added later
 * raises one (IBTA 11.4.2.2). */
#include "check/check.h"
#include "check/parts.h"
#include "verbs/cq.h"

/* The CQs of a channel, if all are so that no event will come. */
struct sleeper {
	struct ibv_comp_channel *ch;
	bool woken; /* by another CQ, maybe */
	unsigned n;
	struct check_cq *first;
};

/* Will no event come on hardware, though an entry waits? */
static bool is_lost(struct check_cq *cq)
{
	return cq->armed && cq->armed_full && cq->armed_head == cq_of(cq->ibv)->head;
}

static bool look_at_cq(struct check_object *o, void *arg)
{
	struct check_cq *cq = (struct check_cq *)o;
	struct sleeper *s = arg;

	if (cq->ibv->channel != s->ch)
		return true;
	if (!s->n++)
		s->first = cq;
	s->woken = !is_lost(cq);
	return !s->woken;
}

static void waits(struct ibv_comp_channel *ch)
{
	struct sleeper s = { .ch = ch };
	struct check_before before = { "it was armed", 0, 0 };

	check_each(LIVE_CQ, look_at_cq, &s);
	if (!s.n || s.woken)
		return;
	before.where = s.first->armed;
	check_report(
		CHECK_LOST_WAKEUP, &before, 1,
		"a thread waits for an event of a CQ that was armed when a completion was "
		"waiting in it, and was not polled since (the channel has %u such CQs): "
		"RNICs need not raise an event for that one",
		s.n);
}

const struct check_part wakeup_part = {
	.name = "wakeup",
	.first = CHECK_LOST_WAKEUP,
	.last = CHECK_LOST_WAKEUP,
	.waits = waits,
};
