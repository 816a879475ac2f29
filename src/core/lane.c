/* SPDX-License-Identifier: BSD-2-Clause */
/* lane.c - a QP and the lane that it takes. */
#include "core/qp.h"

void qp_join_lane(struct qp *qp, struct lane *l)
{
	qp_leave_lane(qp);
	qp->lane = l;
	list_add_tail(&l->qps, &qp->lane_node);
}

void qp_leave_lane(struct qp *qp)
{
	struct lane *l = qp->lane;

	if (!l)
		return;
	list_del(&qp->lane_node);
	list_del(&qp->lane_wait);
	list_del(&qp->lane_out);
	atomic_store(&qp->at_once, false);
	l->at_once += qp->done_at_once;
	l->at_once_bytes += qp->bytes_at_once;
	qp->done_at_once = qp->bytes_at_once = 0;
	qp->lane = NULL;
	l->ops->left(l);
}

void qp_wait_for_lane(struct qp *qp)
{
	if (list_empty(&qp->lane_wait))
		list_add_tail(&qp->lane->waiting, &qp->lane_wait);
}
