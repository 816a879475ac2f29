/* SPDX-License-Identifier: BSD-2-Clause */
/* lane.c - attaching a QP to its lane, and the queue of QPs that wait for room in a
 * lane. */
#include "verbs/due.h"
#include "verbs/qp.h"

void qp_join_lane(struct qp *qp, struct lane *l)
{
	qp_leave_lane(qp);
	qp->lane.via = l;
	list_add_tail(&l->qps, &qp->lane.node);
}

void qp_leave_lane(struct qp *qp)
{
	struct lane *l = qp->lane.via;

	if (!l)
		return;
	list_del(&qp->lane.node);
	qp_leave_line(qp);
	list_del(&qp->lane.ack);
	atomic_store(&qp->tp.at_once, false);
	l->at_once += qp->lane.at_once;
	l->at_once_bytes += qp->lane.at_once_bytes;
	qp->lane.at_once = qp->lane.at_once_bytes = 0;
	qp->lane.via = NULL;
	l->ops->left(l);
}

/* --- QPs that wait for room ---------------------------------------------- */

static struct qp *first_of(const struct list *line)
{
	return list_empty(line) ? NULL : container_of(line->next, struct qp, lane.wait);
}

void qp_wait_for_lane(struct qp *qp, bool served)
{
	struct lane *l = qp->lane.via;

	if (!qp_waits_for_lane(qp))
		list_add_tail(served ? &l->served : &l->waiting, &qp->lane.wait);
}

static void admit(struct lane *l, struct list *line)
{
	list_for_safe(n, line)
	{
		container_of(n, struct qp, lane.wait)->lane.admitted = true;
		list_del(n);
		list_add_tail(&l->admitted, n);
	}
}

void qp_admit_all(struct core *core, struct lane *l)
{
	l->admitted_at = lane_mark(l->written);
	admit(l, &l->waiting);
	admit(l, &l->served);
	due_add(core, first_of(&l->admitted));
}

void qp_leave_line(struct qp *qp)
{
	struct qp *next;

	list_del(&qp->lane.wait);
	if (!qp->lane.admitted)
		return;
	qp->lane.admitted = false;
	next = first_of(&qp->lane.via->admitted);
	if (next)
		due_add(qp->core, next);
}

bool qp_may_go(struct qp *qp)
{
	if (!qp->lane.admitted)
		return true;
	if (first_of(&qp->lane.via->admitted) != qp && !qp->core->leaving)
		return false;
	qp_leave_line(qp);
	return true;
}
