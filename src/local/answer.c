/* SPDX-License-Identifier: BSD-2-Clause */
/* answer.c - what is owed for requests. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/event.h"
#include "core/mr.h"
#include "local/local_qp.h"
#include "sys/guard.h"
#include "sys/log.h"

/* --- state --------------------------------------------------------------- */

/* SQD may raise max_dest_rd_atomic: there is room for as many as can be. */
int lrsp_reset(struct local_qp *q, uint32_t epsn, uint32_t max_reads)
{
	struct owed *owed = max_reads ? calloc(max_reads, sizeof(*owed)) : NULL;

	if (max_reads && !owed)
		return -ENOMEM;
	free(q->rsp.owed);
	q->rsp = (struct local_rsp){
		.epsn = epsn & PSN_MASK,
		.owed = owed,
		.owed_size = max_reads,
	};
	return 0;
}

void lrsp_stop(struct local_qp *q)
{
	struct local_rsp *s = &q->rsp;

	s->target.have_recv = false; /* core flushes it */
	s->ack_due = false;
	if (!s->nak_due) /* else what is before it goes, too */
		s->owed_n = 0;
}

bool lrsp_owes(const struct local_qp *q)
{
	return q->rsp.nak_due;
}

/* --- out ----------------------------------------------------------------- */

/* The next bytes of a READ, or an atomic's result.  0, -EAGAIN: no room,
 * -EACCES: the region is gone. */
static int send_owed(struct local_qp *q, struct owed *o, uint32_t *sent)
{
	uint32_t len = o->atomic ? 8 : o->len - o->done;
	uint8_t *host = NULL;
	struct rec *r;

	if (len > RING_CHUNK)
		len = RING_CHUNK;
	if (!o->atomic && len &&
	    target_reach(q->qp, &q->rsp.target, o->rkey, o->va + o->done, len,
			 IBV_ACCESS_REMOTE_READ, &host))
		return -EACCES;
	r = rec_new(q, o->atomic ? REC_ATOMIC_RESP : REC_READ_RESP, REC_HEAD, len);
	if (!r)
		return -EAGAIN;
	if (o->atomic)
		memcpy((uint8_t *)r + REC_HEAD, &o->orig, sizeof(o->orig));
	else if (len && guard_copy((uint8_t *)r + REC_HEAD, host, len) != 0)
		return -EFAULT;
	r->psn = psn_add(o->psn, o->done / q->mtu);
	rec_send(q, r, REC_HEAD, len);
	o->done += len;
	*sent = len;
	return 0;
}

/* A READ fails in its middle. */
static void spoilt(struct local_qp *q, const struct owed *o, int rc, uint64_t now)
	REQUIRES(q->qp->lock)
{
	struct local_rsp *s = &q->rsp;
	char text[TARGET_WHY_LEN];

	log_info(
		"QP 0x%06x: a READ of QP 0x%06x, PSN %u: the region's memory is gone: %s",
		q->qp->qpn, q->qp->attr.dest_qp_num, o->psn,
		target_why(&s->target, rc == -EFAULT ? REFUSED_MEMORY : REFUSED_KEY,
			   text));
	s->owed_n = 0;
	s->nak = rc == -EFAULT ? REC_OPERATION : REC_ACCESS;
	s->nak_psn = psn_add(o->psn, o->done / q->mtu);
	s->nak_due = true;
	local_fail(q, false, IBV_EVENT_QP_ACCESS_ERR, now);
}

static bool send_ack(struct local_qp *q, uint64_t now)
{
	struct local_rsp *s = &q->rsp;
	struct rec *r;

	if (!s->ack_due || (now < s->ack_at && !q->l->core->hurry))
		return true;
	s->ack_at = 0; /* if there is no room time changes nothing */
	r = rec_new_answer(q, REC_ACK);
	if (!r)
		return false;
	r->psn = s->epsn;
	rec_send(q, r, REC_HEAD, 0);
	s->ack_due = false;
	return true;
}

/* It acknowledges what is before it, unless it is about a PSN that is not
 * expected. */
static bool send_nak(struct local_qp *q)
{
	struct local_rsp *s = &q->rsp;
	struct rec *r;

	if (!s->nak_due)
		return true;
	r = rec_new_answer(q, REC_NAK);
	if (!r)
		return false;
	r->psn = s->nak_psn;
	r->code = s->nak;
	r->imm = q->qp->attr.min_rnr_timer;
	rec_send(q, r, REC_HEAD, 0);
	s->nak_due = false;
	if (s->nak != REC_NOT_READY)
		s->ack_due = false;
	return true;
}

bool lrsp_output(struct local_qp *q, uint64_t now)
{
	struct local_rsp *s = &q->rsp;
	uint32_t left = SHARE, sent = 0;

	while (s->owed_n) {
		struct owed *o = &s->owed[s->owed_head];
		int rc = send_owed(q, o, &sent);

		if (rc == -EAGAIN)
			return false;
		if (rc) {
			spoilt(q, o, rc, now);
			break;
		}
		if (o->atomic || o->done == o->len) {
			s->owed_head = (s->owed_head + 1) % s->owed_size;
			s->owed_n--;
		}
		if (left <= sent)
			return true;
		left -= sent;
	}
	if (send_nak(q))
		send_ack(q, now);
	return false;
}

uint64_t lrsp_deadline(const struct local_qp *q)
{
	/* Without a peer time changes nothing. */
	if (!q->rsp.ack_due || !q->rsp.ack_at || !q->peer || q->peer->state != PEER_UP)
		return NEVER;
	return q->rsp.ack_at;
}
