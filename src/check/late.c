/* SPDX-License-Identifier: BSD-2-Clause */
/* late.c - a message that finds no receive: receive-late. */
#include "check/check.h"
#include "check/parts.h"
#include "verbs/qp.h"

static void unusual(struct check_qp *qp, struct check_srq *srq, struct check_wr *w)
{
	const struct check_before before = { "it was set up", qp ? qp->state_trace : 0,
					     qp ? qp->state_at : 0 };

	if (srq || w->opcode != CHECK_RECV || qp->rq.posted || !qp->starved)
		return;
	check_report(CHECK_RECEIVE_LATE, &before, 1,
		     "QP 0x%06x: the first receive is posted when a message has come "
		     "already, which RNICs answer with RNR",
		     qp->qpn);
}

static void fails(struct check_qp *qp, struct check_wr *w, struct ibv_wc *wc)
{
	if (w && wc->status == IBV_WC_RNR_RETRY_EXC_ERR && !qp->o.gone)
		check_report_at(
			CHECK_RECEIVE_LATE, w->trace, NULL, 0,
			"QP 0x%06x: the %s of wr_id 0x%llx has failed: the peer had "
			"no receive posted, and rnr_retry is %u",
			qp->qpn, check_opcode(w->opcode), (unsigned long long)w->wr_id,
			qp_of(qp->ibv)->attr.rnr_retry);
}

const struct check_part late_part = {
	.name = "late",
	.first = CHECK_RECEIVE_LATE,
	.last = CHECK_RECEIVE_LATE,
	.unusual = unusual,
	.fails = fails,
};
