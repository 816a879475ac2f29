/* SPDX-License-Identifier: BSD-2-Clause */
/* term.c - Terminate messages, sent and received (RFC 5040, 4.8, 7). */
#include <string.h>

#include "iwarp/iw_qp.h"
#include "sys/addr.h"
#include "sys/log.h"

void iw_terminate(struct iw_qp *q, enum rdmap_error error, const struct ddp *d,
		  size_t ulpdu, const uint8_t *read, int event, uint64_t now)
{
	struct iw_term *t = &q->term;

	if (q->life != LIFE_OPEN)
		return;
	if (d && d->tagged)
		log_info("QP 0x%06x: this end terminates the connection: %s (STag "
			 "0x%08x, TO 0x%llx, ULPDU of %zu bytes, opcode %u)",
			 q->qp->qpn, rdmap_error_str((uint16_t)error), d->stag,
			 (unsigned long long)d->to, ulpdu, rdmap_opcode(d->ulp));
	else if (d)
		log_info("QP 0x%06x: this end terminates the connection: %s (queue "
			 "%u, MSN %u, MO %u, ULPDU of %zu bytes, opcode %u)",
			 q->qp->qpn, rdmap_error_str((uint16_t)error), d->qn, d->msn,
			 d->mo, ulpdu, rdmap_opcode(d->ulp));
	else
		log_info("QP 0x%06x: this end terminates the connection: %s", q->qp->qpn,
			 rdmap_error_str((uint16_t)error));
	/* RFC 5040, 4.8: a catastrophic error names no segment. */
	if (error == TERM_RDMAP_LOCAL)
		d = NULL;
	memset(t, 0, sizeof(*t));
	t->error = (uint16_t)error;
	t->has_ddp = d != NULL;
	t->segment_len = d ? (uint16_t)ulpdu : 0;
	if (d)
		t->ddp_len = ddp_build(t->ddp, d);
	t->has_rdmap = read != NULL;
	if (read)
		memcpy(t->rdmap, read, sizeof(t->rdmap));
	iw_fail(q, event, true, now);
}

enum step iw_term_next(struct iw_qp *q, struct iw_cursor *c, struct seg *s)
{
	const struct iw_term *t = &q->term;
	struct rdmap_term w = {
		.error = t->error,
		.has_len = t->has_ddp,
		.has_ddp = t->has_ddp,
		.has_rdmap = t->has_rdmap,
		.segment_len = t->segment_len,
		.ddp = t->ddp,
		.ddp_len = t->ddp_len,
		.rdmap = t->rdmap,
	};

	s->ddp.last = true;
	s->ddp.ulp = rdmap_control(RDMAP_TERMINATE);
	s->ddp.qn = 2;
	s->ddp.msn = 1;
	s->body_len = (uint32_t)rdmap_term_build(s->body, &w);
	c->term_due = false;
	return STEP_SEG;
}

enum rdmap_error iw_term_of(enum mr_why why, bool tagged)
{
	switch (why) {
	case MR_NO_KEY:
	case MR_INVALID:
		return tagged ? TERM_DDP_STAG : TERM_RDMAP_STAG;
	case MR_PD:
	case MR_QP:
		return tagged ? TERM_DDP_STREAM : TERM_RDMAP_STREAM;
	case MR_RANGE:
		return tagged ? TERM_DDP_BOUNDS : TERM_RDMAP_BOUNDS;
	case MR_ACCESS:
		return TERM_RDMAP_ACCESS;
	case MR_OK:
		break;
	}
	return TERM_RDMAP_PROTECTION;
}

/* --- received ------------------------------------------------------------ */

/* The READ or atomic of ours that the Terminate is about.  Only those can be: all other
 * work requests have completed before. */
static const struct iw_read *read_of(const struct iw_qp *q, const struct rdmap_term *t)
{
	struct ddp d;

	if (!t->has_ddp || ddp_parse(&d, t->ddp, t->ddp_len) < 0 || d.tagged || d.qn != 1)
		return NULL;
	return iw_read_find(q, d.msn);
}

static void fail_read(struct iw_qp *q, const struct iw_read *r, uint16_t error,
		      uint64_t now) REQUIRES(q->qp->lock)
{
	enum ibv_wc_status status = IBV_WC_REM_INV_REQ_ERR;
	bool rdmap = rdmap_layer(error) == TERM_RDMAP;
	unsigned etype = rdmap_etype(error);
	enum verr verr = VERR_REMOTE_INVALID;

	if (rdmap && etype == TERM_PROTECTION) {
		status = IBV_WC_REM_ACCESS_ERR;
		verr = VERR_REMOTE_ACCESS;
	} else if (rdmap_layer(error) != TERM_LLP && etype == TERM_CATASTROPHIC) {
		status = IBV_WC_REM_OP_ERR;
		verr = VERR_REMOTE_OPERATION;
	}
	iw_req_flush(q, r->index, now);
	if (q->qp->state != IBV_QPS_ERR)
		sq_complete(q->qp, status, verr, now);
}

void iw_term_received(struct iw_qp *q, const uint8_t *at, size_t n, uint64_t now)
{
	char peer[INET6_ADDRSTRLEN];
	const struct iw_read *r;
	struct rdmap_term t;

	if (rdmap_term_parse(&t, at, n) != 0) {
		log_info("QP 0x%06x: the peer terminates the connection; its "
			 "Terminate message is cut short",
			 q->qp->qpn);
		iw_fail(q, IBV_EVENT_QP_FATAL, false, now);
		return;
	}
	log_info("QP 0x%06x to %s, port %u: the peer terminates the connection: %s "
		 "(0x%04x)",
		 q->qp->qpn, addr_text(q->p.peer, peer), q->p.peer_port,
		 rdmap_error_str(t.error), t.error);
	r = read_of(q, &t);
	if (r) {
		fail_read(q, r, t.error, now);
		iw_fail(q, -1, false, now);
	} else {
		iw_fail(q, IBV_EVENT_QP_FATAL, false, now);
	}
}
