/* SPDX-License-Identifier: BSD-2-Clause */
/* replay.c - what the responder owes, and owes again: READ responses, results
 * of atomics, then one ACK or NAK (IBTA vol. 1, 9.7.5.1, 9.7.5.1.4).
 *
 * todo[] is in PSN order and goes out from its front; an ACK or NAK comes
 * after all of it, so that no answer overtakes another.
 */
#include <string.h>

#include "core/due.h"
#include "core/mr.h"
#include "ib/ib_qp.h"
#include "sys/log.h"
#include "wire/aeth.h"

/* --- the list ----------------------------------------------------------------- */

static void drop(struct ib_rsp *s, unsigned i)
{
	memmove(&s->todo[i], &s->todo[i + 1], (--s->todo_n - i) * sizeof(s->todo[0]));
}

/* Put t in its place; what it covers in part or whole is replaced by it: the
 * peer has gone back to t.psn and asks for all that follows once more.  If that
 * was owed for the first time still, t is. */
static void insert(struct ib_qp *q, const struct todo *t)
{
	struct ib_rsp *s = &q->rsp;
	bool replay = t->replay;
	unsigned i = 0;

	while (i < s->todo_n) {
		const struct todo *o = &s->todo[i];

		if (psn_diff(o->psn, t->psn + t->npkts) < 0 &&
		    psn_diff(t->psn, o->psn + o->npkts) < 0) {
			replay = replay && o->replay;
			drop(s, i);
		} else {
			i++;
		}
	}
	if (s->todo_n == RD_MAX)
		return;
	for (i = s->todo_n; i > 0 && psn_diff(s->todo[i - 1].psn, t->psn) > 0; i--)
		s->todo[i] = s->todo[i - 1];
	s->todo[i] = *t;
	s->todo[i].replay = replay;
	s->todo_n++;
	due_add(q->qp->core, q->qp);
}

unsigned rsp_owing(const struct ib_rsp *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->todo_n; i++)
		n += !s->todo[i].replay;
	return n;
}

void rsp_owe(struct ib_qp *q, const struct todo *t)
{
	struct ib_rsp *s = &q->rsp;

	s->todo[s->todo_n++] = *t;
	s->ack.due = false;			/* the answer is an ACK as well */
	due_add(q->qp->core, q->qp);
}

void rsp_save_atomic(struct ib_qp *q, uint32_t psn, uint64_t orig)
{
	struct ib_rsp *s = &q->rsp;
	unsigned i = s->saved_n++ % RD_MAX;

	s->saved[i].psn = psn;
	s->saved[i].orig = orig;
}

/* --- duplicates ---------------------------------------------------------------- */

static void read_again(struct ib_qp *q, const struct ib_pkt *pkt)
{
	struct todo t = {
		.psn = get_be24(pkt->bth->psn),
		.va = get_be64(pkt->reth->va),
		.rkey = get_be32(pkt->reth->rkey),
		.len = get_be32(pkt->reth->len),
		.msn = q->rsp.msn,
		.replay = true,
		.copy = true,
	};

	t.npkts = t.len ? (t.len - 1) / q->mtu + 1 : 1;
	/* It must lie among what was asked for before, and be allowed. */
	if (t.len > 0x80000000u || psn_diff(psn_add(t.psn, t.npkts), q->rsp.epsn) > 0 ||
	    !(q->qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ))
		return;
	insert(q, &t);
}

static void atomic_again(struct ib_qp *q, uint32_t psn)
{
	struct ib_rsp *s = &q->rsp;
	unsigned n = s->saved_n < RD_MAX ? s->saved_n : RD_MAX;
	struct todo t = { .psn = psn, .npkts = 1, .msn = s->msn, .atomic = true,
			  .replay = true };

	for (unsigned i = 1; i <= n; i++) {
		unsigned at = (s->saved_n - i) % RD_MAX;

		if (s->saved[at].psn != psn)
			continue;
		t.orig = s->saved[at].orig;
		insert(q, &t);
		return;
	}
}

void rsp_duplicate(struct ib_qp *q, const struct ib_pkt *pkt)
{
	count(q, IB_RX_DUPLICATE);
	switch ((enum ib_kind)pkt->op->kind) {
	case IB_SEND: case IB_WRITE:		/* C9-105: as acknowledged last */
		if (!bth_ack_requested(pkt->bth))
			return;
		q->rsp.ack.due = true;
		q->rsp.ack.wait_until = 0;
		due_add(q->qp->core, q->qp);
		return;
	case IB_READ:
		read_again(q, pkt);
		return;
	case IB_CMP_SWAP: case IB_FETCH_ADD:
		atomic_again(q, get_be24(pkt->bth->psn));
		return;
	case IB_ATOMIC_WRITE: case IB_FLUSH:
	case IB_READ_RESP: case IB_ATOMIC_RESP: case IB_ACK:
	case IB_CONGESTION: case IB_KINDS:
		return;
	}
}

/* --- out ------------------------------------------------------------------------ */

static void start(const struct ib_qp *q, struct emit *e, enum sent_kind kind,
		  uint32_t psn)
{
	*e = (struct emit){
		.f = { .psn = psn, .dest_qp = q->qp->attr.dest_qp_num },
		.av = &q->qp->av,
		.sent = { .kind = kind, .psn = psn },
	};
}

/* The memory of a READ that was granted has gone since. */
static void lost_memory(struct ib_qp *q, const struct todo *t, unsigned code,
			uint64_t now)
{
	struct ib_rsp *s = &q->rsp;
	uint32_t psn = psn_add(t->psn, t->sent);
	bool replay = t->replay;

	log_info("QP 0x%06x: READ by QP 0x%06x, PSN %u, rkey 0x%08x: its memory is "
		 "gone%s", q->qp->qpn, q->qp->attr.dest_qp_num, psn, t->rkey,
		 replay ? "; a duplicate, not answered" : "");
	if (replay) {				/* perhaps nobody waits for it */
		drop(s, 0);
		return;
	}
	s->todo_n = 0;
	rsp_nak(q, code, IBV_EVENT_QP_ACCESS_ERR, now);
	s->nak_psn = psn;
}

static bool resolve(struct ib_qp *q, const struct todo *t, struct span *span)
{
	uint8_t *host = NULL;

	span->n = t->len > 0;
	if (t->len > 0 && rsp_check(q, t->rkey, t->va, t->len,
				    IBV_ACCESS_REMOTE_READ, &host) != MR_OK)
		return false;
	span->v[0] = (struct piece){ host, t->len };
	return true;
}

/* Responses of the first in the list.  0, -ENOBUFS, or -EFAULT. */
static int read_responses(struct ib_qp *q, struct batch *b, unsigned *left,
			  uint64_t now)
{
	struct todo *t = &q->rsp.todo[0];
	struct span span;

	if (!resolve(q, t, &span)) {
		lost_memory(q, t, NAK_REMOTE_ACCESS, now);
		return 0;
	}
	while (*left > 0 && t->sent < t->npkts) {
		bool last = t->sent + 1 == t->npkts;
		struct emit e;
		int rc;

		start(q, &e, SENT_RESPONSE, psn_add(t->psn, t->sent));
		e.f.opcode = ib_opcode(IB_RC, IB_READ_RESP,
				       ib_place(t->sent > 0, last), IB_NONE);
		e.f.syndrome = aeth_syndrome(AETH_ACK, AETH_NO_CREDITS);
		e.f.msn = t->msn;
		e.off = t->sent * q->mtu;
		e.len = last ? t->len - e.off : q->mtu;
		e.span = &span;
		e.copy = t->copy;
		e.sent.todo = *t;
		rc = emit(q, b, &e);
		if (rc == -EFAULT)
			lost_memory(q, t, NAK_REMOTE_OPERATIONAL, now);
		if (rc)
			return rc == -EFAULT ? 0 : rc;
		t->sent++;
		--*left;
	}
	if (t->sent == t->npkts)
		drop(&q->rsp, 0);
	return 0;
}

static int atomic_response(struct ib_qp *q, struct batch *b, unsigned *left)
{
	const struct todo *t = &q->rsp.todo[0];
	struct emit e;
	int rc;

	start(q, &e, SENT_RESPONSE, t->psn);
	e.f.opcode = ib_opcode(IB_RC, IB_ATOMIC_RESP, IB_ONLY, IB_NONE);
	e.f.syndrome = aeth_syndrome(AETH_ACK, AETH_NO_CREDITS);
	e.f.msn = t->msn;
	e.f.orig = t->orig;
	e.sent.todo = *t;
	rc = emit(q, b, &e);
	if (rc)
		return rc;
	drop(&q->rsp, 0);
	--*left;
	return 0;
}

static int cnp(struct ib_qp *q, struct batch *b)
{
	struct emit e;
	int rc;

	start(q, &e, SENT_CNP, 0);
	e.f.opcode = ib_opcode(IB_CNP, IB_CONGESTION, IB_ONLY, IB_NONE);
	e.f.becn = true;
	rc = emit(q, b, &e);
	q->rsp.cnp_due = rc != 0;
	return rc;
}

void rsp_cnp(struct ib_qp *q, uint64_t now)
{
	enum { GAP_NS = 50000 };
	struct ib_rsp *s = &q->rsp;

	if (s->cnp_at != 0 && now - s->cnp_at < GAP_NS)
		return;
	s->cnp_at = now;
	s->cnp_due = true;
	due_add(q->qp->core, q->qp);
}

bool rsp_output(struct ib_qp *q, struct batch *b, uint64_t now)
{
	struct ib_rsp *s = &q->rsp;
	unsigned left = RSP_SHARE;

	if (s->cnp_due && cnp(q, b) != 0)
		return true;
	while (s->todo_n > 0) {
		if (left == 0)
			return true;
		if (s->todo[0].atomic ? atomic_response(q, b, &left) :
					read_responses(q, b, &left, now))
			return true;
	}
	return false;
}

/* A datagram that the link did not take: it is owed again. */
void rsp_untake(struct ib_qp *q, const struct sent *sent)
{
	struct ib_rsp *s = &q->rsp;

	if (sent->kind == SENT_ACK)
		s->ack.due = true;
	else if (sent->kind == SENT_RESPONSE)
		insert(q, &sent->todo);
}
