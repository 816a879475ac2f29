/* SPDX-License-Identifier: BSD-2-Clause */
/* responder.c - executes segments from the peer (RFC 5041, 5, 7; RFC 5040, 5, 7; RFC
 * 7306, 5 to 7). */
#include <string.h>

#include "iwarp/iw_qp.h"
#include "sys/log.h"
#include "verbs/mr.h"
#include "verbs/target.h"

/* A segment, as the functions here pass it on. */
struct in {
	struct ddp d;
	const struct rdmap_op *op;
	const uint8_t *at; /* payload */
	uint32_t len;
	size_t ulpdu;
	uint64_t now;
};

void iw_rsp_reset(struct iw_qp *q)
{
	for (int i = 0; i < RDMAP_QUEUES; i++) {
		q->msn[i] = 1;
		q->mo[i] = 0;
	}
	q->op = NULL;
	q->target.have_recv = q->write_open = false;
	q->write_len = 0;
	q->stash_len = 0;
	q->pos = 0;
	q->first = true;
}

static void refuse_message(struct iw_qp *q, const struct in *in, enum rdmap_error error)
	REQUIRES(q->qp->lock)
{
	iw_terminate(q, error, &in->d, in->ulpdu, NULL, IBV_EVENT_QP_REQ_ERR, in->now);
}

/* The message of this segment, which is its first, finds no receive. */
static void no_recv(struct iw_qp *q, const struct in *in) REQUIRES(q->qp->lock)
{
	const uint32_t msn = q->msn[0], mo = q->mo[0];

	/* untagged() has counted it. */
	q->msn[0] = in->d.msn;
	q->mo[0] = 0;
	if (iw_late(q, in->now))
		return;
	q->msn[0] = msn;
	q->mo[0] = mo;
	refuse_message(q, in, TERM_DDP_NO_BUFFER);
}

/* As refuse_message(), for an error of the receive: its completion reports the error, so
 * no event does. */
static void refuse_recv(struct iw_qp *q, const struct in *in, enum refusal why)
	REQUIRES(q->qp->lock)
{
	static const enum rdmap_error error[REFUSALS] = {
		[REFUSED_RECV_SHORT] = TERM_DDP_TOO_LONG,
		[REFUSED_RECV_SGE] = TERM_RDMAP_LOCAL,
		[REFUSED_INVALIDATE] = TERM_RDMAP_NO_INVALIDATE,
	};

	if (why == REFUSED_NO_RECV) {
		no_recv(q, in);
		return;
	}
	target_fail_recv(q->qp, &q->target, why, in->now);
	iw_terminate(q, error[why], &in->d, in->ulpdu, NULL, -1, in->now);
}

/* --- queue 0: SEND, immediate data --------------------------------------- */

static enum refusal fill_recv(struct iw_qp *q, const struct in *in) REQUIRES(q->qp->lock)
{
	enum refusal why = ACCEPTED;

	if (in->d.mo == 0 && q->op == NULL)
		why = target_take_recv(q->qp, &q->target);
	if (why)
		return why;
	q->op = in->d.last ? NULL : in->op;
	why = target_fill_recv(q->qp, &q->target, in->at, in->len);
	if (!why && in->d.last && in->op->inv)
		why = target_invalidate(q->qp, in->d.ulp_word);
	return why;
}

static void send_came(struct iw_qp *q, const struct in *in) REQUIRES(q->qp->lock)
{
	struct cqe cqe = { .now = in->now, .opcode = IBV_WC_RECV };
	enum refusal why = fill_recv(q, in);

	if (why) {
		refuse_recv(q, in, why);
		return;
	}
	if (!in->d.last)
		return;
	cqe.byte_len = (uint32_t)q->target.filled;
	if (in->op->inv) {
		cqe.flags = IBV_WC_WITH_INV;
		cqe.imm = in->d.ulp_word;
	}
	target_complete(q->qp, &q->target, &cqe, in->op->se);
}

/* Immediate data completes the WRITE before it. */
static void immediate_came(struct iw_qp *q, const struct in *in) REQUIRES(q->qp->lock)
{
	struct cqe cqe = {
		.now = in->now,
		.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
		.flags = IBV_WC_WITH_IMM,
		.byte_len = q->write_len,
	};

	if (target_take_recv(q->qp, &q->target)) {
		refuse_recv(q, in, REFUSED_NO_RECV);
		return;
	}
	q->write_len = 0;
	memcpy(&cqe.imm, in->at, sizeof(cqe.imm));
	target_complete(q->qp, &q->target, &cqe, in->op->se);
}

/* --- queue 1: READ requests, atomics ------------------------------------- */

/* The error of the Terminate: DDP refuses tagged segments, RDMAP all others. */
static enum rdmap_error memory_error(const struct in *in, const struct target *t,
				     enum refusal why)
{
	bool tagged = in->d.tagged;

	if (why == REFUSED_OPERATION)
		return TERM_RDMAP_ACCESS;
	if (why != REFUSED_KEY)
		return TERM_RDMAP_LOCAL;
	if (t->refused.va > UINT64_MAX - (t->refused.len - 1))
		return tagged ? TERM_DDP_WRAP : TERM_RDMAP_WRAP;
	return iw_term_of(t->refused.why, tagged);
}

/* read: the READ request's RDMAP header, or NULL. */
static void refuse_memory(struct iw_qp *q, const struct in *in, enum refusal why,
			  const uint8_t *read) REQUIRES(q->qp->lock)
{
	char text[TARGET_WHY_LEN];

	log_info("QP 0x%06x: %s from the peer, %u bytes: %s", q->qp->qpn,
		 in->op ? in->op->name : "WRITE", in->len,
		 target_why(&q->target, why, text));
	iw_terminate(q, memory_error(in, &q->target, why), &in->d, in->ulpdu, read,
		     IBV_EVENT_QP_ACCESS_ERR, in->now);
}

/* Does the QP allow the peer this access?  An empty access is always allowed. */
static enum refusal allows(const struct iw_qp *q, uint32_t len, int access)
{
	return len > 0 ? target_allows(q->qp, access) : ACCEPTED;
}

/* RFC 6581, 9: is it the initiator's first frame? */
static bool is_rtr(const struct iw_qp *q, const struct in *in, enum mpa_rtr rtr)
{
	return q->first && !q->p.initiator && q->p.rtr == rtr && in->d.last;
}

/* Is there room for one more request?  At most IRD at once; an RTR that waits is not
 * counted. */
static bool has_resource(struct iw_qp *q, const struct in *in) REQUIRES(q->qp->lock)
{
	uint32_t n = q->resources.tail - q->c.resource;

	if (n > 0 && q->resources.v[q->c.resource % DEPTH].rtr)
		n--;
	if (n < q->p.ird || is_rtr(q, in, MPA_RTR_READ))
		return true;
	refuse_message(q, in, TERM_DDP_NO_BUFFER);
	return false;
}

static void keep_resource(struct iw_qp *q, const struct in *in,
			  const struct iw_resource *o)
{
	struct iw_resource *to = &q->resources.v[q->resources.tail++ % DEPTH];

	*to = *o;
	ddp_build(to->ddp, &in->d);
}

static void read_came(struct iw_qp *q, const struct in *in) REQUIRES(q->qp->lock)
{
	struct iw_resource o = { .rtr = is_rtr(q, in, MPA_RTR_READ) };
	enum refusal why;
	uint8_t *host;

	rdmap_read_parse(&o.r, in->at);
	if (q->draining || !has_resource(q, in))
		return;
	why = allows(q, o.r.len, IBV_ACCESS_REMOTE_READ);
	if (!why)
		why = target_reach(q->qp, &q->target, o.r.src_stag, o.r.src_to, o.r.len,
				   IBV_ACCESS_REMOTE_READ, &host);
	if (why)
		refuse_memory(q, in, why, in->at);
	else
		keep_resource(q, in, &o);
}

/* RFC 7306, 5.1: no carry leaves a bit that is set in the mask. */
static uint64_t masked_add(uint64_t a, uint64_t b, uint64_t mask)
{
	uint64_t top = mask | 1ull << 63;

	return ((a & ~top) + (b & ~top)) ^ ((a ^ b) & top);
}

static enum refusal execute_atomic(struct qp *qp, const struct rdmap_atomic *a,
				   uint64_t *at, uint64_t *orig)
{
	enum refusal why;
	uint64_t seen, put;

	if (a->op == RDMAP_FETCH_ADD && !(a->mask & ~(1ull << 63)))
		return target_atomic(qp, a->stag, at, NULL, a->data, orig);
	if (a->op == RDMAP_CMP_SWAP && a->mask == UINT64_MAX &&
	    a->compare_mask == UINT64_MAX)
		return target_atomic(qp, a->stag, at, &a->compare, a->data, orig);
	why = target_atomic(qp, a->stag, at, NULL, 0, orig);
	while (!why) {
		seen = *orig;
		if (a->op == RDMAP_FETCH_ADD)
			put = masked_add(seen, a->data, a->mask);
		else if ((seen ^ a->compare) & a->compare_mask)
			return ACCEPTED;
		else
			put = (seen & ~a->mask) | (a->data & a->mask);
		why = target_atomic(qp, a->stag, at, &seen, put, orig);
		if (!why && *orig == seen)
			break;
	}
	return why;
}

static void atomic_came(struct iw_qp *q, const struct in *in) REQUIRES(q->qp->lock)
{
	struct iw_resource o = { .atomic = true };
	struct rdmap_atomic a;
	enum refusal why;
	uint8_t *host;

	rdmap_atomic_parse(&a, in->at);
	if (q->draining || !has_resource(q, in))
		return;
	/* Not target_check_atomic(): an address out of bounds is that error, aligned or
	 * not. */
	why = allows(q, 8, IBV_ACCESS_REMOTE_ATOMIC);
	if (!why)
		why = target_reach(q->qp, &q->target, a.stag, a.to, 8,
				   IBV_ACCESS_REMOTE_ATOMIC, &host);
	if (!why && ((a.op != RDMAP_FETCH_ADD && a.op != RDMAP_CMP_SWAP) || a.to & 7 ||
		     (uintptr_t)host & 7)) {
		refuse_message(q, in, TERM_RDMAP_OPERATION);
		return;
	}
	o.a.id = a.id;
	if (!why)
		why = execute_atomic(q->qp, &a, (uint64_t *)(void *)host, &o.a.orig);
	if (why)
		refuse_memory(q, in, why, NULL);
	else
		keep_resource(q, in, &o);
}

/* --- tagged -------------------------------------------------------------- */

static void write_came(struct iw_qp *q, const struct in *in) REQUIRES(q->qp->lock)
{
	enum refusal why;

	if (!q->write_open)
		q->write_len = 0;
	q->write_open = !in->d.last;
	q->write_len += in->len;
	why = allows(q, in->len, IBV_ACCESS_REMOTE_WRITE);
	if (!why)
		why = target_place(q->qp, &q->target, in->d.stag, in->d.to, in->at,
				   in->len);
	if (why)
		refuse_memory(q, in, why, NULL);
}

static void tagged(struct iw_qp *q, const struct in *in) REQUIRES(q->qp->lock)
{
	if (rdmap_opcode(in->d.ulp) == RDMAP_WRITE)
		write_came(q, in);
	else
		iw_read_response(q, &in->d, in->at, in->len, in->now);
}

/* --- untagged ------------------------------------------------------------ */

/* Does the opcode belong to this queue, and does it continue the message? */
static bool opcode_fits(struct iw_qp *q, const struct in *in) REQUIRES(q->qp->lock)
{
	if (in->op->queue == in->d.qn && (in->d.qn != 0 || !q->op || q->op == in->op) &&
	    (!in->op->body || (in->len == in->op->body && in->d.last)))
		return true;
	refuse_message(q, in, TERM_RDMAP_OPCODE);
	return false;
}

/* An RTR SEND uses no receive. */
static bool is_rtr_send(const struct iw_qp *q, const struct in *in)
{
	return is_rtr(q, in, MPA_RTR_SEND) && in->d.qn == 0 && in->len == 0 &&
	       !in->op->inv && !in->op->imm;
}

static void untagged(struct iw_qp *q, const struct in *in) REQUIRES(q->qp->lock)
{
	if (!opcode_fits(q, in))
		return;
	q->mo[in->d.qn] += in->len;
	if (in->d.last) {
		q->msn[in->d.qn]++;
		q->mo[in->d.qn] = 0;
	}
	switch ((enum rdmap_opcode)rdmap_opcode(in->d.ulp)) {
	case RDMAP_SEND:
	case RDMAP_SEND_INV:
	case RDMAP_SEND_SE:
	case RDMAP_SEND_SE_INV:
		if (!is_rtr_send(q, in))
			send_came(q, in);
		return;
	case RDMAP_IMMEDIATE:
	case RDMAP_IMMEDIATE_SE:
		immediate_came(q, in);
		return;
	case RDMAP_READ_REQUEST:
		read_came(q, in);
		return;
	case RDMAP_ATOMIC_REQUEST:
		atomic_came(q, in);
		return;
	case RDMAP_ATOMIC_RESPONSE:
		iw_atomic_response(q, &in->d, in->at, in->now);
		return;
	case RDMAP_TERMINATE:
		iw_term_received(q, in->at, in->len, in->now);
		return;
	case RDMAP_WRITE:
	case RDMAP_READ_RESPONSE:
		return;
	}
}

/* --- all segments -------------------------------------------------------- */

/* Checks a header's general rules and returns the error, 0: none.  DDP's rules first (RFC
 * 5041, 7.1: segments come in order, and messages on each queue). */
static unsigned header_error(const struct iw_qp *q, const struct in *in)
{
	const struct ddp *d = &in->d;

	if (d->version != DDP_VERSION)
		return d->tagged ? TERM_DDP_TAGGED_VERSION : TERM_DDP_UNTAGGED_VERSION;
	if (!d->tagged && d->qn >= RDMAP_QUEUES)
		return TERM_DDP_QUEUE;
	if (!d->tagged && d->msn != q->msn[d->qn])
		return TERM_DDP_MSN;
	if (!d->tagged && d->mo != q->mo[d->qn])
		return TERM_DDP_MO;
	if (rdmap_version(d->ulp) != RDMAP_VERSION)
		return TERM_RDMAP_VERSION;
	if (!in->op || in->op->tagged != d->tagged)
		return TERM_RDMAP_OPCODE;
	return 0;
}

/* A segment of the peer's program may answer our last message, whose completion waited
 * for it: that is made first.  A response to a READ or atomic comes from the peer's NIC
 * and does not count.  Returns false if the completion has failed the QP. */
static bool release_answered(struct iw_qp *q, unsigned opcode, uint64_t now)
	REQUIRES(q->qp->lock)
{
	if (opcode == RDMAP_READ_RESPONSE || opcode == RDMAP_ATOMIC_RESPONSE)
		return true;
	answers_came(&q->answers, now);
	iw_req_release(q, now);
	iw_settle(q, now);
	return q->life == LIFE_OPEN;
}

void iw_rsp_segment(struct iw_qp *q, const uint8_t *ulpdu, size_t n, uint64_t now)
{
	struct in in = { .ulpdu = n, .now = now };
	int hdr = ddp_parse(&in.d, ulpdu, n);
	unsigned error;

	if (hdr < 0) {
		/* RFC 6581 allows an empty FPDU as an RTR, too. */
		if (n == 0 && q->first && q->p.rtr == MPA_RTR_SEND)
			return;
		iw_terminate(q, TERM_DDP_LOCAL, NULL, 0, NULL, IBV_EVENT_QP_REQ_ERR, now);
		return;
	}
	in.op = rdmap_op(rdmap_opcode(in.d.ulp));
	in.at = ulpdu + hdr;
	in.len = (uint32_t)(n - (size_t)hdr);
	if (!release_answered(q, rdmap_opcode(in.d.ulp), now))
		return;
	error = header_error(q, &in);
	if (error)
		refuse_message(q, &in, (enum rdmap_error)error);
	else if (in.d.tagged)
		tagged(q, &in);
	else
		untagged(q, &in);
}
