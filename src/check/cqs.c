/* SPDX-License-Identifier: BSD-2-Clause */
/* cqs.c - completion queues that are too small: cq-overrun, cq-too-small. */
#include "check/check.h"
#include "check/parts.h"
#include "verbs/cq.h"

static void feed(struct check_cq *cq, const struct check_qp *qp, uint32_t places)
{
	const struct check_before before = { "the completion queue was created",
					     cq ? cq->o.made : 0, 0 };
	uint64_t all;

	if (!cq || !places)
		return;
	all = atomic_fetch_add(&cq->feeds, places) + places;
	if (all > (uint64_t)cq->ibv->cqe)
		check_report(
			CHECK_CQ_TOO_SMALL, &before, 1,
			"QP 0x%06x completes to a queue of %d entries, and all queues "
			"that do have %llu places",
			qp->qpn, cq->ibv->cqe, (unsigned long long)all);
}

static void made(struct check_object *o)
{
	struct check_qp *qp = (struct check_qp *)o;

	if (o->kind != LIVE_QP)
		return;
	feed(qp->send_cq, qp, qp->cap.max_send_wr);
	feed(qp->recv_cq, qp, qp->srq ? 0 : qp->cap.max_recv_wr);
}

static void gone(struct check_object *o)
{
	const struct check_qp *qp = (const struct check_qp *)o;

	if (o->kind != LIVE_QP)
		return;
	if (qp->send_cq)
		atomic_fetch_sub(&qp->send_cq->feeds, qp->cap.max_send_wr);
	if (qp->recv_cq && !qp->srq)
		atomic_fetch_sub(&qp->recv_cq->feeds, qp->cap.max_recv_wr);
}

static void look_at_cq(struct check_cq *cq)
{
	if (cq->o.gone || !cq_of(cq->ibv)->overrun || atomic_exchange(&cq->overrun, true))
		return;
	check_report_made(
		CHECK_CQ_OVERRUN, &cq->o, NULL, 0,
		"a completion queue of %d entries is overrun: a completion came "
		"when all were waiting to be polled; the queues that complete to "
		"it have %llu places, %llu completions were polled so far",
		cq->ibv->cqe, (unsigned long long)cq->feeds,
		(unsigned long long)cq_of(cq->ibv)->tail);
}

static void destroys(struct check_object *o)
{
	if (o->kind == LIVE_CQ)
		look_at_cq((struct check_cq *)o);
}

const struct check_part cqs_part = {
	.name = "cqs",
	.first = CHECK_CQ_OVERRUN,
	.last = CHECK_CQ_TOO_SMALL,
	.made = made,
	.gone = gone,
	.empty = look_at_cq,
	.destroys = destroys,
};
