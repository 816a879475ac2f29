/* SPDX-License-Identifier: BSD-2-Clause */
/* due.c - see due.h. A taker takes the whole stack, so there is no ABA problem. A QP
 * may be added again while the taker still walks its list, hence two links (due_link,
 * due_next).
 */
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

struct qp *due_take(struct core *core)
{
	struct qp *qp = atomic_exchange(&core->due, NULL), *oldest = NULL, *below;

	for (; qp; qp = below) {
		below = qp->sched.below;
		qp->sched.next = oldest;
		oldest = qp;
		/* From here on due_add() may write due_link. */
		atomic_store(&qp->sched.due, false);
	}
	return oldest;
}

bool due_any(struct core *core)
{
	/* Seq_cst like due_add()'s exchange and the turn's lock: so a thread that
	 * gives the turn sees the QP of a thread that added it and then failed to get
	 * the turn. */
	return atomic_load(&core->due) != NULL;
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
	struct qp *next;

	if (core->timers)
		heap_del(core->timers, &qp->sched.timer);

	for (struct qp *p = due_take(core); p; p = next) {
		next = p->sched.next;
		if (p != qp)
			due_add(core, p);
	}
}
