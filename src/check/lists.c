/* SPDX-License-Identifier: BSD-2-Clause */
/* lists.c - a list that is posted again from its head: bad-wr-ignored. */
#include "check/check.h"
#include "check/parts.h"

static uint64_t addr_of(const struct check_wr *w)
{
	return w->num_sge ? w->sge[0].addr : 0;
}

/* Remembers a list of which the first requests were taken, and w is not. */
static void refused(struct check_qp *qp, const struct check_wr *w, int rc)
{
	const struct check_wr *first = NULL;
	struct check_wr *one;

	(void)rc;
	if (w->opcode == CHECK_RECV || !w->list)
		return;
	check_for_each(one, &qp->sq) if (!first && one->list == w->list) first = one;
	if (!first)
		return;
	qp->partial.is = first != w;
	qp->partial.wr_id = first->wr_id;
	qp->partial.addr = addr_of(first);
	qp->partial.bad_wr_id = w->wr_id;
	qp->partial.bad_addr = addr_of(w);
	qp->partial.trace = w->trace;
	qp->partial.at = w->at;
}

/* w is the first request that is posted after such a list. */
static void look_at_list(struct check_qp *qp, const struct check_wr *w)
{
	const struct check_before before = { "the list was posted first",
					     qp->partial.trace, qp->partial.at };

	qp->partial.is = false;
	if (w->wr_id != qp->partial.wr_id || addr_of(w) != qp->partial.addr ||
	    (w->wr_id == qp->partial.bad_wr_id && addr_of(w) == qp->partial.bad_addr))
		return;
	check_report(
		CHECK_BAD_WR_IGNORED, &before, 1,
		"QP 0x%06x: a list that begins with wr_id 0x%llx is posted again from "
		"its head, though only what follows wr_id 0x%llx (*bad_wr) was refused: "
		"the requests before it are carried out twice",
		qp->qpn, (unsigned long long)w->wr_id,
		(unsigned long long)qp->partial.bad_wr_id);
}

static void unusual(struct check_qp *qp, struct check_srq *srq, struct check_wr *w)
{
	if (!srq && w->opcode != CHECK_RECV && qp->partial.is)
		look_at_list(qp, w);
}

const struct check_part lists_part = {
	.name = "lists",
	.first = CHECK_BAD_WR_IGNORED,
	.last = CHECK_BAD_WR_IGNORED,
	.unusual = unusual,
	.refused = refused,
};
