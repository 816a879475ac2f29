/* SPDX-License-Identifier: BSD-2-Clause */
/* reads.c - outstanding READs and atomics, and their responses, which come in the order
 * of the requests (RFC 5040, 5.5; RFC 7306, 5). */
#include "iwarp/iw_qp.h"
#include "sys/log.h"

void iw_read_note(struct iw_qp *q, struct iw_cursor *c, const struct iw_read *r)
{
	struct iw_read *to = &q->reads[c->s.reads++ % DEPTH];

	*to = *r;
	to->msn = c->msn[1];
}

const struct iw_read *iw_read_find(const struct iw_qp *q, uint32_t msn)
{
	for (uint32_t i = q->src.answered; i != q->c.s.reads; i++)
		if (q->reads[i % DEPTH].msn == msn)
			return q->reads[i % DEPTH].rtr ? NULL : &q->reads[i % DEPTH];
	return NULL;
}

/* The oldest that is outstanding, or NULL. */
static struct iw_read *oldest_read(struct iw_qp *q)
{
	return q->src.answered == q->c.s.reads ? NULL
					       : &q->reads[q->src.answered % DEPTH];
}

/* The response does not match the request: its READ fails, and the QP. */
static void bad_answer(struct iw_qp *q, enum rdmap_error error, const struct ddp *d,
		       size_t ulpdu, uint64_t now) REQUIRES(q->qp->lock)
{
	const struct iw_read *r = oldest_read(q);

	/* All requests before it are complete, so the oldest is the READ.  (An RTR has no
	 * work request.) */
	if (r && !r->rtr)
		send_end(q->qp, &q->src, &q->c.s, IBV_WC_BAD_RESP_ERR, VERR_BAD_RESPONSE,
			 now);
	iw_terminate(q, error, d, ulpdu, NULL, IBV_EVENT_QP_REQ_ERR, now);
}

/* The oldest READ or atomic has been answered. */
static void oldest_answered(struct iw_qp *q, const struct iw_read *r, uint64_t now)
	REQUIRES(q->qp->lock)
{
	q->src.answered++;
	if (r->rtr)
		return;
	sq_at(&q->qp->sq, r->index)->done = 1;
	iw_req_complete(q, now);
}

static bool place_data(struct iw_qp *q, const struct iw_read *r, uint32_t off,
		       const void *at, uint32_t len, uint64_t now) REQUIRES(q->qp->lock)
{
	struct qp *qp = q->qp;
	int rc;

	qp_is_held(qp);
	if (len == 0)
		return true;
	rc = scatter(qp, qp->pd, sq_sges(&qp->sq, r->index),
		     sq_at(&qp->sq, r->index)->num_sge, off, at, len);
	if (rc == 0)
		return true;
	send_end(qp, &q->src, &q->c.s, IBV_WC_LOC_PROT_ERR, verr_of(rc), now);
	iw_terminate(q, TERM_RDMAP_LOCAL, NULL, 0, NULL, -1, now);
	return false;
}

void iw_read_response(struct iw_qp *q, const struct ddp *d, const uint8_t *at,
		      uint32_t len, uint64_t now)
{
	struct iw_read *r = oldest_read(q);
	size_t ulpdu = DDP_TAGGED_LEN + len;

	if (!r || r->atomic) {
		bad_answer(q, TERM_RDMAP_OPCODE, d, ulpdu, now);
		return;
	}
	if (d->stag != r->stag) {
		bad_answer(q, TERM_DDP_STAG, d, ulpdu, now);
		return;
	}
	/* Segments come in order; exactly the last one has the last flag. */
	if (d->to != r->to + r->done || len > r->len - r->done ||
	    d->last != (len == r->len - r->done)) {
		bad_answer(q, TERM_DDP_BOUNDS, d, ulpdu, now);
		return;
	}
	if (!place_data(q, r, r->done, at, len, now))
		return;
	r->done += len;
	if (d->last)
		oldest_answered(q, r, now);
}

void iw_atomic_response(struct iw_qp *q, const struct ddp *d, const uint8_t *at,
			uint64_t now)
{
	struct iw_read *r = oldest_read(q);
	struct rdmap_atomic_response a;

	rdmap_atomic_response_parse(&a, at);
	if (!r || !r->atomic || a.id != r->id) {
		bad_answer(q, TERM_RDMAP_OPCODE, d,
			   DDP_UNTAGGED_LEN + RDMAP_ATOMIC_RESPONSE_LEN, now);
		return;
	}
	if (place_data(q, r, 0, &a.orig, sizeof(a.orig), now))
		oldest_answered(q, r, now);
}
