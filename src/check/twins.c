/* SPDX-License-Identifier: BSD-2-Clause */
/* twins.c - the same work twice: posted-twice. */
#include "check/check.h"
#include "check/parts.h"

static bool is_same(const struct check_wr *a, const struct check_wr *b)
{
	if (a->opcode != b->opcode || a->wr_id != b->wr_id || !a->num_sge ||
	    a->num_sge != b->num_sge)
		return false;
	return a->sge[0].addr == b->sge[0].addr && a->sge[0].length == b->sge[0].length &&
	       a->remote_addr == b->remote_addr;
}

static bool requests_overlap(const struct check_wr *a, const struct check_wr *b)
{
	for (unsigned i = 0; i < a->num_sge; i++)
		for (unsigned j = 0; j < b->num_sge; j++)
			if (a->sge[i].lkey == b->sge[j].lkey &&
			    a->sge[i].addr < b->sge[j].addr + b->sge[j].length &&
			    b->sge[j].addr < a->sge[i].addr + a->sge[i].length)
				return true;
	return false;
}

static void look_for_twin(uint32_t qpn, const struct check_queue *q,
			  const struct check_wr *w)
{
	const bool receives = w->opcode == CHECK_RECV;
	struct check_wr *old;

	if (q->unsure)
		return;
	check_for_each(old, q)
	{
		const struct check_before before = { "the other was posted", old->trace,
						     old->at };

		if (old == w || !(receives ? requests_overlap(old, w) : is_same(old, w)))
			continue;
		check_report_at(
			CHECK_POSTED_TWICE, w->trace, &before, 1,
			"QP 0x%06x: a %s of wr_id 0x%llx is posted, and another of "
			"wr_id 0x%llx with the same memory is outstanding",
			qpn, check_opcode(w->opcode), (unsigned long long)w->wr_id,
			(unsigned long long)old->wr_id);
		return;
	}
}

static void post(struct check_qp *qp, struct check_wr *w)
{
	look_for_twin(qp->qpn, &qp->sq, w);
}

static void recv(struct check_qp *qp, struct check_srq *srq, struct check_wr *w)
{
	look_for_twin(qp ? qp->qpn : 0, qp ? &qp->rq : &srq->rq, w);
}

const struct check_part twins_part = {
	.name = "twins",
	.first = CHECK_POSTED_TWICE,
	.last = CHECK_POSTED_TWICE,
	.post = post,
	.recv = recv,
};
