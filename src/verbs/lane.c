/* SPDX-License-Identifier: BSD-2-Clause */
/* lane.c - attaching a QP to its lane, and the line of QPs that wait for room in a
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

static struct qp *first_of(const struct lane *l)
{
	return list_empty(&l->line) ? NULL
				    : container_of(l->line.next, struct qp, lane.wait);
}

/* Is it the QP's turn: is it the first in line, and does the lane have room? */
static bool has_turn(const struct qp *qp)
{
	return qp->lane.via->open && first_of(qp->lane.via) == qp;
}

/* Another QP is the first in line. */
static void call_first(struct core *core, struct lane *l)
{
	l->left = l->share;
	if (l->open && !list_empty(&l->line))
		due_add(core, first_of(l));
}

bool qp_may_write(const struct qp *qp)
{
	const struct lane *l = qp->lane.via;

	if (list_empty(&l->line) || qp->core->leaving)
		return true;
	return has_turn(qp) && (l->line.next == l->line.prev ||
				lane_mark(l->written) - l->turn_at < l->left);
}

static void go_to_end(struct qp *qp)
{
	list_del(&qp->lane.wait);
	list_add_tail(&qp->lane.via->line, &qp->lane.wait);
}

void qp_wait_for_lane(struct qp *qp, bool full)
{
	struct lane *l = qp->lane.via;

	if (list_empty(&l->line))
		l->left = l->share;
	if (!qp_waits_for_lane(qp) || (!full && has_turn(qp)))
		go_to_end(qp);
	if (full)
		l->open = false;
}

void qp_open_lane(struct core *core, struct lane *l)
{
	l->open = true;
	due_add(core, first_of(l));
}

void qp_leave_line(struct qp *qp)
{
	struct lane *l = qp->lane.via;
	const bool was_first = first_of(l) == qp;

	list_del(&qp->lane.wait);
	if (was_first)
		call_first(qp->core, l);
}

bool qp_begin_turn(struct qp *qp)
{
	struct lane *l = qp->lane.via;

	if (!qp_waits_for_lane(qp))
		return false;
	if (qp->core->leaving) { /* others may stay locked */
		qp_leave_line(qp);
		return false;
	}
	if (!has_turn(qp))
		return false;
	l->turn_at = lane_mark(l->written);
	return true;
}

void qp_end_turn(struct qp *qp)
{
	struct lane *l = qp->lane.via;
	const uint32_t used = lane_mark(l->written) - l->turn_at;

	if (first_of(l) != qp) {
		call_first(qp->core, l);
	} else if (l->open) { /* it has not asked for more */
		qp_leave_line(qp);
	} else if (used < l->left) {
		l->left -= used;
	} else {
		go_to_end(qp);
		l->left = l->share;
	}
}
