/* SPDX-License-Identifier: BSD-2-Clause */
/* touched.c - memory that the program reads or writes while a request has it:
 * buffer-touched (docs/dev/races.md). */
#include "check/check.h"
#include "check/ops.h"
#include "check/parts.h"
#include "check/queue.h"
#include "check/region.h"
#include "check/trace.h"
#include "check/ward.h"
#include "verbs/mr.h"
#include "verbs/qp.h"

/* Is it over, though the program has got no completion? Then nothing touches its memory
 * any more. */
static bool is_over(const struct check_qp *qp)
{
	return qp && (qp->o.gone || qp_of(qp->ibv)->state == IBV_QPS_ERR);
}

static void say_touch(const struct ward_touch *t)
{
	const struct ward_note *n = &t->note;
	const bool sends = n->opcode != CHECK_RECV && n->opcode != IBV_WR_RDMA_READ;
	const struct check_before before = { "the request was posted", n->trace, n->at };

	if (is_over(n->qp) || !ops_begin())
		return;
	check_report_at(CHECK_BUFFER_TOUCHED, t->by ? trace_at((const void *)t->by) : 0,
			&before, 1,
			"%s 0x%06x: the program %s 0x%llx, which the %s of wr_id 0x%llx "
			"%s: its completion was not polled",
			n->qp ? "QP" : "SRQ", n->qp ? n->qp->qpn : n->srq->ibv->handle,
			t->wrote ? "writes to" : "reads", (unsigned long long)t->at,
			check_opcode(n->opcode), (unsigned long long)n->wr_id,
			sends ? "sends" : "is to fill");
	ops_end();
}

static void begin_wards(struct check_wr *w, const struct check_qp *qp,
			const struct check_srq *srq, bool reads)
{
	const struct ward_note note = { .qp = qp,
					.srq = srq,
					.wr_id = w->wr_id,
					.at = w->at,
					.trace = w->trace,
					.opcode = w->opcode };

	for (unsigned i = 0; i < w->num_sge; i++) {
		const struct ibv_sge *g = &w->sge[i];
		const uint64_t at = region_at(g->lkey, g->addr, g->length);

		if (at && region_is_plain(g->lkey))
			w->ward = ward_begin(at, g->length, reads, &note, w->ward);
	}
}

static void post(struct check_qp *qp, struct check_wr *w)
{
	if (qp->sq.unsure || qp->type == IBV_QPT_RAW_PACKET || w->flags & IBV_SEND_INLINE)
		return;
	begin_wards(w, qp, NULL, w->opcode == IBV_WR_RDMA_READ);
}

static void recv(struct check_qp *qp, struct check_srq *srq, struct check_wr *w)
{
	if (qp ? qp->rq.unsure || qp->type == IBV_QPT_RAW_PACKET : srq->rq.unsure)
		return;
	begin_wards(w, qp, srq, true);
}

static void open_queues(struct check_qp *qp)
{
	check_queue_open(&qp->sq);
	check_queue_open(&qp->rq);
}

/* After an error all is flushed, but for receives of an SRQ, whose lock is held in place
 * of the QP's.  Who has spoken may have got what was sent before. */
static void complete(struct check_qp *qp, struct check_wr *w, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS && !qp->srq)
		open_queues(qp);
	if (w && w->opcode == CHECK_RECV)
		ward_open_sends();
}

static void wrote(const void *host, uint64_t len, bool done)
{
	(void)host, (void)len;
	if (!done)
		ward_open_sends();
}

static void modified(struct check_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR)
		open_queues(qp);
}

static void made(struct check_object *o)
{
	region_made(o);
	region_look(o);
}

static void gone(struct check_object *o)
{
	const struct check_mr *mr = (const struct check_mr *)o;

	if (o->kind == LIVE_MR)
		ward_open(mr->addr, mr->length);
	region_gone(o);
}

static void start(void)
{
	ward_start(say_touch);
}

const struct check_part touched_part = {
	.name = "touched",
	.first = CHECK_BUFFER_TOUCHED,
	.last = CHECK_BUFFER_TOUCHED,
	.start = start,
	.post = post,
	.recv = recv,
	.complete = complete,
	.wrote = wrote,
	.modified = modified,
	.made = made,
	.gone = gone,
	.exits = ward_stop,
};
