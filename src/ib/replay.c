/* SPDX-License-Identifier: BSD-2-Clause */
/* replay.c - the responder's pending answers, and those that it gives again to
 * duplicates: READ responses, results of atomics, then one ACK or NAK (IBTA vol. 1,
 * 9.7.5.1, 9.7.5.1.4).
 *
 * resource[] is in PSN order and goes out from its front; an ACK or NAK follows all of
 * it, so that no answer overtakes another. */
#include <string.h>

#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "sys/log.h"
#include "verbs/due.h"
#include "verbs/mr.h"
#include "wire/aeth.h"

/* --- the list ------------------------------------------------------------ */

static void drop_resource(struct ib_rsp *s, unsigned i)
{
	memmove(&s->resource[i], &s->resource[i + 1],
		(--s->resources - i) * sizeof(s->resource[0]));
}

/* Puts t in its place by PSN.  t replaces all entries that it overlaps: the peer has gone
 * back to t.psn and requests all that follows once more.  If a replaced entry was no
 * replay, t is none either. */
static void insert(struct ib_qp *q, const struct resource *t)
{
	struct ib_rsp *s = &q->rsp;
	bool replay = t->replay;
	unsigned i = 0;

	while (i < s->resources) {
		const struct resource *o = &s->resource[i];

		if (psn_diff(o->psn, t->psn + t->npkts) < 0 &&
		    psn_diff(t->psn, o->psn + o->npkts) < 0) {
			replay = replay && o->replay;
			drop_resource(s, i);
		} else {
			i++;
		}
	}
	if (s->resources == RD_MAX)
		return;
	for (i = s->resources; i > 0 && psn_diff(s->resource[i - 1].psn, t->psn) > 0; i--)
		s->resource[i] = s->resource[i - 1];
	s->resource[i] = *t;
	s->resource[i].replay = replay;
	s->resources++;
	due_add(q->qp->core, q->qp);
}

unsigned rsp_pending(const struct ib_rsp *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->resources; i++)
		n += !s->resource[i].replay;
	return n;
}

void rsp_add_pending(struct ib_qp *q, const struct resource *t)
{
	struct ib_rsp *s = &q->rsp;

	/* There was room when the request was checked, but duplicates may have come
	 * since, if another process has executed it. */
	for (unsigned i = 0; s->resources == RD_MAX && i < s->resources; i++)
		if (s->resource[i].replay)
			drop_resource(s, i);
	s->resource[s->resources++] = *t;
	s->ack.due = false; /* the answer acknowledges as well */
	due_add(q->qp->core, q->qp);
}

void rsp_save_atomic(struct ib_qp *q, uint32_t psn, uint64_t orig)
{
	struct ib_rsp *s = &q->rsp;
	unsigned i = s->saved_n++ % RD_MAX;

	s->saved[i].psn = psn;
	s->saved[i].orig = orig;
}

/* --- duplicates ---------------------------------------------------------- */

static void read_again(struct ib_qp *q, const struct ib_pkt *pkt)
{
	struct resource t = {
		.psn = pkt->f.psn,
		.va = pkt->f.va,
		.rkey = pkt->f.rkey,
		.len = pkt->f.dma_len,
		.msn = q->rsp.msn,
		.srqn = rsp_srqn(pkt),
		.replay = true,
	};

	t.npkts = t.len ? (t.len - 1) / q->mtu + 1 : 1;
	/* A duplicate must lie within what was requested before, and the QP must allow
	 * READs. */
	if (t.len > 0x80000000u || psn_diff(psn_add(t.psn, t.npkts), q->rsp.epsn) > 0 ||
	    !(q->qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ))
		return;
	insert(q, &t);
}

static void atomic_again(struct ib_qp *q, uint32_t psn)
{
	struct ib_rsp *s = &q->rsp;
	unsigned n = s->saved_n < RD_MAX ? s->saved_n : RD_MAX;
	struct resource t = {
		.psn = psn, .npkts = 1, .msn = s->msn, .atomic = true, .replay = true
	};

	for (unsigned i = 1; i <= n; i++) {
		unsigned at = (s->saved_n - i) % RD_MAX;

		if (s->saved[at].psn != psn)
			continue;
		t.orig = s->saved[at].orig;
		insert(q, &t);
		return;
	}
}

/* An atomic write or FLUSH was executed: the answer is repeated, and the memory is not
 * touched again. */
static void done_again(struct ib_qp *q, const struct ib_pkt *pkt)
{
	insert(q, &(struct resource){ .psn = pkt->f.psn,
				      .npkts = 1,
				      .msn = q->rsp.msn,
				      .srqn = rsp_srqn(pkt),
				      .replay = true });
}

void rsp_duplicate(struct ib_qp *q, const struct ib_pkt *pkt)
{
	count(q, IB_RX_DUPLICATE);
	switch ((enum ib_kind)pkt->op->kind) {
	case IB_SEND:
	case IB_WRITE: /* C9-105: acknowledged with the latest PSN */
		if (!pkt->f.ackreq)
			return;
		q->rsp.ack.due = true;
		q->rsp.ack.wait_until = 0;
		due_add(q->qp->core, q->qp);
		return;
	case IB_READ:
		read_again(q, pkt);
		return;
	case IB_CMP_SWAP:
	case IB_FETCH_ADD:
		atomic_again(q, pkt->f.psn);
		return;
	case IB_ATOMIC_WRITE:
	case IB_FLUSH:
		done_again(q, pkt);
		return;
	case IB_READ_RESP:
	case IB_ATOMIC_RESP:
	case IB_ACK:
	case IB_CONGESTION:
	case IB_KINDS:
		return;
	}
}

/* --- out ----------------------------------------------------------------- */

static void begin_response(const struct ib_qp *q, struct emit *e, uint32_t psn)
{
	*e = (struct emit){
		.f = { .psn = psn, .dest_qp = q->qp->attr.dest_qp_num },
		.path = &q->qp->path,
	};
}

/* The memory of a READ that was accepted has been deregistered or unmapped since. */
static void lost_memory(struct ib_qp *q, const struct resource *t, enum refusal why,
			uint64_t now) REQUIRES(q->qp->lock)
{
	struct ib_rsp *s = &q->rsp;
	uint32_t psn = psn_add(t->psn, t->sent);
	bool replay = t->replay;
	char text[TARGET_WHY_LEN], by[IB_PEER_LEN];

	if (!replay || ib_tells_drop(q, why))
		log_info("QP 0x%06x: READ by %s, PSN %u: the region's memory "
			 "is gone: %s%s",
			 q->qp->qpn, ib_peer_text(q, by), psn,
			 target_why(&s->target, why, text),
			 replay ? "; a duplicate, not answered" : "");
	if (replay) { /* perhaps nobody waits for it */
		drop_resource(s, 0);
		return;
	}
	s->resources = 0;
	rsp_nak(q, why, now);
	s->nak_psn = psn;
}

int rsp_bytes(struct ib_qp *q, const struct resource *t, struct rsp_bytes *out,
	      enum refusal *why)
{
	uint8_t *host;

	*why = REFUSED_KEY;
	if ((t->replay ? target_reach_again
		       : target_reach)(q->qp, &q->rsp.target, t->rkey, t->va, t->len,
				       IBV_ACCESS_REMOTE_READ, &host))
		return -EACCES;
	out->span.ours = false;
	out->span.n = t->len > 0;
	out->span.v[0] = (struct piece){ host, t->len };
	out->first = 0;
	out->end = t->npkts;
	return 0;
}

/* Sends responses of resource[i], at most *left.  Returns 0; -ENOBUFS: no more in this
 * batch; -EAGAIN: the payload has not arrived. */
static int read_responses(struct ib_qp *q, struct batch *b, unsigned i, unsigned *left,
			  uint64_t now) REQUIRES(q->qp->lock)
{
	const struct resource t = q->rsp.resource[i];
	const uint32_t from = t.sent;
	enum refusal why;
	struct rsp_bytes bytes;
	int found = q->hooks ? q->hooks->bytes(q, i, now, &bytes, &why)
			     : rsp_bytes(q, &t, &bytes, &why);

	if (found == -EAGAIN || found == -ENOBUFS)
		return found;
	if (found) {
		if (i > 0)
			return -ENOBUFS;
		lost_memory(q, &t, why, now);
		return 0;
	}
	for (uint32_t k = from; k < t.npkts; k++, --*left) {
		bool last = k + 1 == t.npkts;
		struct emit e;
		int rc;

		if (*left == 0 || k == bytes.end)
			return -ENOBUFS;
		begin_response(q, &e, psn_add(t.psn, k));
		e.f.opcode = ib_opcode(q->service, IB_READ_RESP, ib_place(k > 0, last),
				       IB_NONE);
		e.f.syndrome = aeth_syndrome(AETH_ACK, AETH_NO_CREDITS);
		e.f.msn = t.msn;
		e.off = (k - bytes.first) * q->mtu;
		e.len = last ? t.len - k * q->mtu : q->mtu;
		e.span = &bytes.span;
		rc = emit_planned(q, b, &e,
				  &(struct plan){ .kind = PLAN_RESPONSE,
						  .psn = t.psn,
						  .sent = k + 1 });
		if (rc == -EFAULT && i == 0 && k == from) {
			lost_memory(q, &t, REFUSED_MEMORY, now);
			return 0;
		}
		if (rc)
			return -ENOBUFS;
	}
	return 0;
}

static int atomic_response(struct ib_qp *q, struct batch *b, const struct resource *t)
{
	struct emit e;

	begin_response(q, &e, t->psn);
	e.f.opcode = ib_opcode(q->service, IB_ATOMIC_RESP, IB_ONLY, IB_NONE);
	e.f.syndrome = aeth_syndrome(AETH_ACK, AETH_NO_CREDITS);
	e.f.msn = t->msn;
	e.f.orig = t->orig;
	return emit_planned(q, b, &e,
			    &(struct plan){
				    .kind = PLAN_RESPONSE, .psn = t->psn, .sent = 1 });
}

static int cnp(struct ib_qp *q, struct batch *b)
{
	struct emit e;

	begin_response(q, &e, 0);
	e.f.opcode = ib_opcode(IB_CNP, IB_CONGESTION, IB_ONLY, IB_NONE);
	e.f.becn = true;
	return emit_planned(q, b, &e, &(struct plan){ .kind = PLAN_CNP });
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

/* If the memory of a READ is gone, that is decided only when the READ is the oldest: it
 * is dropped (a duplicate) or fails the QP. */
bool rsp_output(struct ib_qp *q, struct batch *b, uint64_t now)
{
	struct ib_rsp *s = &q->rsp;
	unsigned left = q->qp->path.rate ? PACED_SHARE : REQ_SHARE, i = 0, n;
	int rc;

	if (s->cnp_due && cnp(q, b) != 0)
		return true;
	while (i < s->resources) {
		if (left == 0)
			return true;
		n = s->resources;
		if (s->resource[i].atomic) {
			rc = atomic_response(q, b, &s->resource[i]);
			left--;
		} else {
			rc = read_responses(q, b, i, &left, now);
		}
		if (rc) /* later answers wait as well */
			return rc != -EAGAIN;
		if (s->resources == n)
			i++;
	}
	return false;
}

void rsp_sent(struct ib_qp *q, uint32_t psn, uint32_t n)
{
	struct ib_rsp *s = &q->rsp;

	/* The QP may have failed since the packet was planned. */
	if (s->resources == 0 || s->resource[0].psn != psn)
		return;
	s->resource[0].sent = n;
	if (n != s->resource[0].npkts)
		return;
	if (q->hooks)
		q->hooks->sent(q);
	drop_resource(s, 0);
}
