/* SPDX-License-Identifier: BSD-2-Clause */
/* due.c - see due.h. The whole stack is taken, so there is no ABA problem. */
#include "verbs/due.h"

#include "sys/clock.h"
#include "sys/heap.h"
#include "verbs/core.h"
#include "verbs/qp.h"

void due_add(struct core *core, struct qp *qp)
{
	struct qp *head;

	if (atomic_exchange(&qp->sched.due, true))
		return;
	head = atomic_load_explicit(&core->due, memory_order_relaxed);
	do {
		qp->sched.below = head;
	} while (!atomic_compare_exchange_weak(&core->due, &head, qp));
}

/* Takes the whole stack, oldest first, linked by qp->sched.below. */
static struct qp *take_stack(struct core *core)
{
	struct qp *qp = atomic_exchange(&core->due, NULL), *oldest = NULL, *below;

	for (; qp; qp = below) {
		below = qp->sched.below;
		qp->sched.below = oldest;
		oldest = qp;
	}
	return oldest;
}

static struct qp *first_taken(const struct core *core)
{
	return atomic_load_explicit(&core->taken, memory_order_relaxed);
}

static void set_taken(struct core *core, struct qp *qp)
{
	atomic_store_explicit(&core->taken, qp, memory_order_relaxed);
}

struct qp *due_next(struct core *core)
{
	struct qp *qp = first_taken(core);

	if (!qp)
		qp = take_stack(core);
	if (!qp)
		return NULL;
	set_taken(core, qp->sched.below);
	/* From here on due_add() may write sched.below.  What it was called for is seen
	 * from here on. */
	(void)atomic_exchange(&qp->sched.due, false);
	return qp;
}

bool due_any(struct core *core)
{
	/* Seq_cst like due_add()'s exchange and the turn's lock: so a thread that
	 * gives the turn sees the QP of a thread that added it and then failed to get
	 * the turn.  It has itself written core->taken. */
	return atomic_load(&core->due) || first_taken(core);
}

void due_at(struct core *core, struct qp *qp, uint64_t at)
{
	if (at == NEVER || (qp->sched.timer.pos && qp->sched.timer.at <= at))
		return;
	/* cannot fail: the heap has room for all QPs */
	(void)heap_set(core->timers, &qp->sched.timer, at);
}

void due_forget(struct core *core, struct qp *qp)
{
	struct qp *first = first_taken(core), **at = &first;

	if (core->timers)
		heap_del(core->timers, &qp->sched.timer);
	if (!atomic_load(&qp->sched.due))
		return;
	while (*at)
		at = &(*at)->sched.below;
	*at = take_stack(core);
	for (at = &first; *at && *at != qp;)
		at = &(*at)->sched.below;
	if (*at) /* otherwise a thread is about to add it: the program posts to it */
		*at = qp->sched.below;
	set_taken(core, first);
	atomic_store(&qp->sched.due, false);
}
