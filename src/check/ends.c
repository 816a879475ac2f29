/* SPDX-License-Identifier: BSD-2-Clause */
/* ends.c - objects after their end, and at the process's: destroyed-twice,
 * use-after-destroy, event-unacked, leak-object, leak-work. */
#include <stdio.h>

#include "check/check.h"
#include "check/parts.h"
#include "check/queue.h"
#include "sys/live.h"

enum { SOME = 256 };

static void stale(struct check_object *o, enum live_kind kind, bool destroys)
{
	const struct check_before before[] = {
		{ "it was destroyed", o->ended, o->ended_at },
		{ "it was made", o->made, o->made_at },
	};
	char name[32] = "";

	if (kind == LIVE_QP)
		snprintf(name, sizeof(name), " QP 0x%06x", ((struct check_qp *)o)->qpn);
	if (destroys)
		check_report(CHECK_DESTROYED_TWICE, before, 2,
			     "a %s%s is destroyed a second time", live_name(kind), name);
	else
		check_report(CHECK_USE_AFTER_DESTROY, before, 2,
			     "a %s%s is used that was destroyed", live_name(kind), name);
}

static void destroys(struct check_object *o)
{
	const struct check_cq *cq = (const struct check_cq *)o;
	const struct check_before before = { "it was created", o->made, o->made_at };

	if (o->kind == LIVE_CQ && (int32_t)(cq->events_got - cq->events_acked) > 0)
		check_report(CHECK_EVENT_UNACKED, &before, 1,
			     "ibv_destroy_cq waits until all events are acknowledged "
			     "(ibv_ack_cq_events): %u were fetched, %u acknowledged",
			     cq->events_got, cq->events_acked);
}

/* --- the end of the process ------------------------------------------------- */

static void look_at_work(struct check_qp *qp)
{
	struct check_wr *w;

	brief_take(&qp->lock);
	check_for_each(w, &qp->sq)
	{
		if (!(w->flags & IBV_SEND_SIGNALED) || qp->failed || qp->sq.unsure)
			continue;
		check_report_at(CHECK_LEAK_WORK, w->trace, NULL, 0,
				"QP 0x%06x: the process ends, and the completion of a %s "
				"of wr_id 0x%llx was not polled",
				qp->qpn, check_opcode(w->opcode),
				(unsigned long long)w->wr_id);
		break;
	}
	brief_give(&qp->lock);
}

static void say_left(struct check_object *o)
{
	if (o->inner)
		return;
	check_report_made(CHECK_LEAK_OBJECT, o, NULL, 0,
			  "the process ends with a %s that is not destroyed",
			  live_name(o->kind));
	if (o->kind == LIVE_QP)
		look_at_work((struct check_qp *)o);
}

static void exits(void)
{
	struct check_object *o[SOME];
	unsigned n, skip;

	for (int kind = LIVE_CONTEXT; kind < LIVE_CM_ID; kind++) {
		skip = 0;
		do {
			n = check_list((enum live_kind)kind, skip, o, SOME);
			for (unsigned i = 0; i < n; i++)
				say_left(o[i]);
			skip += n;
		} while (n == SOME);
	}
}

const struct check_part ends_part = {
	.name = "ends",
	.first = CHECK_DESTROYED_TWICE,
	.last = CHECK_LEAK_WORK,
	.stale = stale,
	.destroys = destroys,
	.exits = exits,
};
