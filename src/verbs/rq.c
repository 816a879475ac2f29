/* SPDX-License-Identifier: BSD-2-Clause */
/* rq.c - a ring of receives.  Its owner, QP or SRQ, locks. */
#include "verbs/rq.h"

#include <errno.h>
#include <string.h>

#include "verbs/ring.h"

enum { RQ_MAX = 1 << 24 }; /* sanity limit; callers' limits are far below */

static uint32_t pow2_above(uint32_t n)
{
	uint32_t size = 1;

	while (size < n)
		size *= 2;
	return size;
}

int rq_init(struct rq *rq, struct pd *in, uint32_t max_wr, uint32_t max_sge)
{
	if (max_wr > RQ_MAX || max_sge > SGE_MAX)
		return -EINVAL;
	memset(rq, 0, sizeof(*rq));
	rq->in = in;
	rq->size = pow2_above(max_wr);
	rq->cap = max_wr;
	rq->max_sge = max_sge ? max_sge : 1;
	rq->wqe = ring_alloc(in, rq->size, sizeof(*rq->wqe));
	rq->sge = ring_alloc(in, (size_t)rq->size * rq->max_sge, sizeof(*rq->sge));
	if (!rq->wqe || !rq->sge) {
		rq_fini(rq);
		return -ENOMEM;
	}
	return 0;
}

void rq_fini(struct rq *rq)
{
	ring_free(rq->in, rq->wqe, rq->size, sizeof(*rq->wqe));
	ring_free(rq->in, rq->sge, (size_t)rq->size * rq->max_sge, sizeof(*rq->sge));
	rq->wqe = NULL;
	rq->sge = NULL;
}

bool rq_pop(struct rq *rq, struct rwqe *out)
{
	uint32_t at = rq->tail & (rq->size - 1);

	if (rq->head == rq->tail)
		return false;
	out->wr_id = rq->wqe[at].wr_id;
	out->num_sge = rq->wqe[at].num_sge;
	memcpy(out->sge, &rq->sge[(size_t)at * rq->max_sge],
	       out->num_sge * sizeof(out->sge[0]));
	out->length = 0;
	for (unsigned i = 0; i < out->num_sge; i++)
		out->length += out->sge[i].length;
	rq->tail++;
	return true;
}

/* The indices and the count of returned places stay: entries in CQs refer to them. */
void rq_resize(struct rq *rq, struct rq *by)
{
	const struct rq was = { .size = rq->size, .wqe = rq->wqe, .sge = rq->sge };

	for (uint32_t i = rq->tail; i != rq->head; i++) {
		const uint32_t from = i & (rq->size - 1), to = i & (by->size - 1);

		by->wqe[to] = rq->wqe[from];
		memcpy(&by->sge[(size_t)to * by->max_sge],
		       &rq->sge[(size_t)from * rq->max_sge],
		       rq->wqe[from].num_sge * sizeof(*rq->sge));
	}
	rq->size = by->size;
	rq->cap = by->cap;
	rq->wqe = by->wqe;
	rq->sge = by->sge;
	by->size = was.size;
	by->wqe = was.wqe;
	by->sge = was.sge;
}
