/* SPDX-License-Identifier: BSD-2-Clause */
/* tm_rndv.c - a matched rendezvous: the QP READs the data and SENDs the FIN, by
 * requests of its own in its send queue (docs/dev/tag-matching.md).
 *
 * Such a request is posted behind the program's. A rendezvous waits in qp->tm.rndv while
 * the program builds requests (verbs/post_build.c), since the places there are the
 * builder's, and while TM_OWN requests are posted.
 */
#include <string.h>

#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/cq.h"
#include "verbs/due.h"
#include "verbs/event.h"
#include "verbs/qp.h"
#include "verbs/tm.h"

static struct tm_tag *tag_of(const struct swqe *w)
{
	return (struct tm_tag *)(uintptr_t)w->wr_id;
}

/* Is w the READ of a rendezvous? Its wr_id is the tag; that of a FIN has no meaning. */
static bool is_fetch(const struct swqe *w)
{
	return w->flags & SWQE_OWN && w->opcode == IBV_WR_RDMA_READ;
}

/* Fills sge with the first tag->len bytes of the tag's buffer. */
static unsigned first_of(const struct tm_tag *tag, struct ibv_sge *sge)
{
	uint32_t left = tag->len;
	unsigned n = 0;

	for (; left > 0; n++) {
		sge[n] = tag->sge[n];
		if (sge[n].length > left)
			sge[n].length = left;
		left -= sge[n].length;
	}
	return n;
}

static void make_read(struct swqe *w, struct ibv_sge *sge, const struct tm_tag *tag)
{
	w->opcode = IBV_WR_RDMA_READ;
	w->remote_addr = tag->va;
	w->rkey = tag->rkey;
	w->length = tag->len;
	w->num_sge = (uint16_t)first_of(tag, sge);
}

static void finish(struct swqe *w, struct ibv_sge *sge, uint8_t *room,
		   const struct tm_tag *tag)
{
	struct ibv_tmh fin = tag->tmh;

	fin.opcode = IBV_TMH_FIN;
	memcpy(room, &fin, sizeof(fin));
	w->opcode = IBV_WR_SEND;
	w->flags |= IBV_SEND_INLINE;
	w->length = sizeof(fin);
	w->num_sge = 1;
	*sge = (struct ibv_sge){ .addr = (uintptr_t)room, .length = sizeof(fin) };
}

static void post_own(struct qp *qp, struct tm_tag *tag) REQUIRES(qp->lock)
{
	struct sq *sq = &qp->sq;
	uint32_t at = sq->head & (sq->size - 1);
	struct swqe *w = sq_at(sq, sq->head);
	struct ibv_sge *sge = sq_sges(sq, sq->head);

	memset(w, 0, sizeof(*w));
	w->wr_id = (uintptr_t)tag;
	w->flags = SWQE_OWN | IBV_SEND_SIGNALED; /* signalled, so that tm_ended() is
						  * called */
	sq->head++;
	qp->tm.own++;
	if (!tag->fetched) {
		make_read(w, sge, tag);
		return;
	}
	finish(w, sge, sq->inl + (size_t)at * sq->max_inline, tag);
	tm_free(qp->tm.list, tag); /* the program may add another tag from now on */
}

bool tm_go_on(struct qp *qp)
{
	bool any = false;

	qp_is_held(qp);
	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return false;
	while (!list_empty(&qp->tm.rndv) && !qp->builder.active && qp->tm.own < TM_OWN) {
		struct tm_tag *tag = container_of(qp->tm.rndv.next, struct tm_tag, node);

		list_del(&tag->node);
		post_own(qp, tag);
		any = true;
	}
	if (any)
		due_add(qp->core, qp);
	return any;
}

void tm_fetch(struct qp *qp, struct tm_tag *tag)
{
	list_add_tail(&qp->tm.rndv, &tag->node);
	tm_go_on(qp);
}

/* Makes the completion of a rendezvous whose data has arrived or never will. */
static struct cqe ending(const struct qp *qp, const struct tm_tag *tag,
			 enum ibv_wc_status status, enum verr verr, uint64_t now)
	REQUIRES(qp->lock)
{
	const bool ok = status == IBV_WC_SUCCESS;

	return (struct cqe){
		.wr_id = tag->recv_wr_id,
		.now = now,
		.qp_num = qp->qpn,
		.src_qp = qp->attr.dest_qp_num,
		.status = status,
		.vendor_err = verr,
		.opcode = IBV_WC_TM_RECV,
		.flags = ok ? IBV_WC_TM_DATA_VALID : 0,
		.byte_len = ok ? tag->len : 0,
	};
}

static void fin_ended(struct qp *qp, enum ibv_wc_status status, enum verr verr)
{
	if (status == IBV_WC_SUCCESS || status == IBV_WC_WR_FLUSH_ERR)
		return;
	log_info("QP 0x%06x: the FIN of a rendezvous fails: %s", qp->qpn,
		 verr_text(verr)->what);
	async_raise(qp->ctx, IBV_EVENT_QP_FATAL, &qp->ex.qp_base);
}

bool tm_ended(struct qp *qp, const struct swqe *w, enum ibv_wc_status status,
	      enum verr verr, uint64_t now)
{
	struct tm_tag *tag = tag_of(w);
	struct cqe cqe;

	qp_is_held(qp);
	qp->tm.own--;
	if (!is_fetch(w)) {
		fin_ended(qp, status, verr);
		tm_go_on(qp);
		return true;
	}
	cqe = ending(qp, tag, status, verr, now);
	tag->fetched = status == IBV_WC_SUCCESS;
	if (tag->fetched)
		list_add_tail(qp->tm.rndv.next,
			      &tag->node); /* to the front of the list */
	else
		tm_free(qp->tm.list, tag);
	tm_go_on(qp);
	/* Pushed last, because a program that reads the entry may count on the tag's
	 * free place. */
	return cq_push(qp->srq->cq, &cqe, true);
}

/* Ends waiting rendezvous. Unless quietly, those whose data has not arrived get a
 * completion. */
static void end_waiting(struct qp *qp, bool quietly, uint64_t now) REQUIRES(qp->lock)
{
	struct cqe cqe;
	bool told;

	while (!list_empty(&qp->tm.rndv)) {
		struct tm_tag *tag = container_of(qp->tm.rndv.next, struct tm_tag, node);

		list_del(&tag->node);
		cqe = ending(qp, tag, IBV_WC_WR_FLUSH_ERR, VERR_FLUSHED, now);
		told = quietly || tag->fetched;
		tm_free(qp->tm.list, tag);
		if (!told)
			cq_push(qp->srq->cq, &cqe, true);
	}
	if (qp->tm.tag)
		tm_free(qp->tm.list, qp->tm.tag);
	qp->tm.tag = NULL;
}

void tm_flush(struct qp *qp, uint64_t now)
{
	qp_is_held(qp);
	end_waiting(qp, false, now);
}

void tm_clear(struct qp *qp)
{
	qp_is_held(qp);
	for (uint32_t i = qp->sq.tail; i != qp->sq.head; i++)
		if (is_fetch(sq_at(&qp->sq, i)))
			tm_free(qp->tm.list, tag_of(sq_at(&qp->sq, i)));
	qp->tm.own = 0;
	qp->tm.found.opcode = 0;
	end_waiting(qp, true, 0);
}
