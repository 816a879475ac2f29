/* SPDX-License-Identifier: BSD-2-Clause */
/* requester.c - turns work requests into packets (IBTA vol. 1, 9.7.3, 10.8.3).
 *
 * One cursor walks over the send queue.  Everything before it has been sent; to send
 * again is to move it back (retry.c).  UC and UD use the same cursor and never move it
 * back.
 *
 * output() moves a copy of the cursor and leaves the requester unchanged.  Each planned
 * packet carries the position that the cursor will have once the link has taken it
 * (emit.c), so a link that takes no packet of a batch changes nothing. */
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "verbs/device.h"

/* What each kind of work request is on the wire. */
static const struct wr {
	uint8_t kind, tail; /* enum ib_kind, ib_tail */
} wrs[] = {
#define OP(name, types, traits, wc, claim, ib_kind, ib_tail, rdmap)                      \
	[IBV_WR_##name] = { ib_kind, ib_tail },
#include "verbs/wr_op.def"
};

static struct swqe *current(const struct planning *p)
{
	return sq_at(&p->q->qp->sq, p->at.cur);
}

static inline int resolve(struct planning *p)
{
	if (p->memory.resolved && p->memory.index == p->at.cur)
		return 0;
	return wqe_resolve(p->q->qp, p->at.cur, &p->memory);
}

/* --- a work request's first step ----------------------------------------- */

static enum step local_work(struct planning *p) REQUIRES(p->q->qp->lock)
{
	struct ib_req *r = &p->q->req;
	enum ibv_wc_status st;
	enum verr verr;

	if (p->at.cur != r->at.cur) /* requests before it are planned */
		return STEP_WAIT;
	switch (send_locally(p->q->qp, &r->at, &st, &verr, p->now)) {
	case END_WAITS:
		return STEP_WAIT;
	case END_FAILED:
		req_error(p->q, st, verr, p->now);
		return STEP_WAIT;
	case END_DONE:
		break;
	}
	send_skip(&p->at);
	return STEP_NEXT;
}

/* Once all packets before it have been sent, p->at is where the requester's own cursor
 * is. */
enum step req_refuse(struct planning *p, enum ibv_wc_status status, enum verr verr)
{
	if (p->at.psn != p->q->req.at.psn)
		return STEP_FULL;
	req_error(p->q, status, verr, p->now);
	return STEP_WAIT;
}

static uint32_t wqe_bytes(const struct swqe *w)
{
	return wqe_is_atomic(w) ? 8 : w->length;
}

static inline struct send_limits limits_of(const struct ib_qp *q)
{
	const uint32_t reads = q->qp->attr.max_rd_atomic;

	return (struct send_limits){
		.reads = reads < RD_MAX ? reads : RD_MAX,
		.bytes = q->qp->type == IBV_QPT_UD ? q->mtu : caps.max_msg,
	};
}

/* A long READ goes out as several requests, so that the window covers its responses, too:
 * long ones, whose responses leave in few runs, but shorter ones after losses.  What one
 * READ is cut into never changes: a request that is repeated must match one that the peer
 * got before.  Returns how many packets of response a request asks for. */
static uint32_t read_chunk(const struct ib_qp *q)
{
	enum { LEAST = 16 << 10, MOST = 64 << 10 };
	const uint32_t parts = q->qp->attr.max_rd_atomic == 1 ? 1 : 2;
	uint32_t n = q->host->window / 2 / parts;

	n = n < LEAST ? LEAST : n > 2 * MOST / parts ? 2 * MOST / parts : n;
	return n / q->mtu;
}

/* Checks the work request at the cursor, which has not begun, and gives it PSNs. */
static enum step begin_request(struct planning *p, struct swqe *w)
	REQUIRES(p->q->qp->lock)
{
	const struct send_limits limits = limits_of(p->q);
	struct ib_qp *q = p->q;

	switch (send_may(q->qp, &q->req.s, &p->at, w, &limits)) {
	case SEND_GO:
		break;
	case SEND_WAIT:
		return STEP_WAIT;
	case SEND_LOCAL:
		return local_work(p);
	case SEND_BAD_OP:
		return req_refuse(p, IBV_WC_LOC_QP_OP_ERR, VERR_LOCAL_OPERATION);
	case SEND_TOO_LONG:
		return req_refuse(p, IBV_WC_LOC_LEN_ERR, VERR_TOO_LONG);
	}
	if (resolve(p) != 0)
		return req_refuse(p, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_KEY);
	if (w->opcode == IBV_WR_RDMA_READ)
		w->chunk = read_chunk(q);
	send_begin(&p->at, w, wqe_bytes(w) ? (wqe_bytes(w) - 1) / q->mtu + 1 : 1);
	return STEP_GO;
}

/* --- packets ------------------------------------------------------------- */

static bool is_fresh(const struct planning *p)
{
	return p->at.psn == p->at.max_psn;
}

/* Fills e with what all packets of w have in common. */
static void begin_packet(const struct planning *p, struct emit *e, const struct swqe *w)
{
	const struct qp *qp = p->q->qp;

	*e = (struct emit){
		.f = { .psn = p->at.psn,
		       .dest_qp = qp->attr.dest_qp_num,
		       .rkey = w->rkey,
		       .srqn = w->srqn },
		.path = &qp->path,
	};
	if (qp->type != IBV_QPT_UD)
		return;
	e->path = &w->ud.path;
	e->f.dest_qp = w->ud.qpn;
	e->f.qkey = w->ud.qkey & QKEY_OWN ? qp->attr.qkey : w->ud.qkey;
	e->f.src_qp = qp->qpn;
}

/* Moves the cursor n PSNs on within w. */
static void move_on(struct planning *p, const struct swqe *w, uint32_t n)
{
	struct send_cursor *at = &p->at;

	send_move(&p->q->req.s, at, w, n);
	if (at->burst != NO_BURST && at->burst > 0)
		at->burst--;
}

/* Packets of more than REQ_PACKET bytes use up more of the share than the one that
 * req_output() counts. */
static void spend(struct planning *p, uint32_t bytes)
{
	uint32_t more = bytes ? (bytes - 1) / REQ_PACKET : 0;

	p->left -= more < p->left ? more : p->left - 1;
}

/* emit() has returned rc for e, which takes n PSNs of w: plans the packet. */
static enum step plan(struct planning *p, int rc, const struct emit *e,
		      const struct swqe *w, uint32_t n, uint32_t cost)
	REQUIRES(p->q->qp->lock)
{
	struct ib_qp *q = p->q;
	struct plan *plan;

	if (rc == -ENOBUFS)
		return STEP_FULL;
	if (rc)
		return req_refuse(p, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_FAULT);
	plan = emitted(q, p->b);
	plan->kind = PLAN_REQUEST;
	plan->psn = p->at.psn;
	plan->cost = cost;
	plan->fresh = is_fresh(p);
	plan->timed = plan->fresh && (e->f.ackreq || wqe_is_read(w));
	move_on(p, w, n);
	p->at.unasked = q->qp->reliable && !e->f.ackreq;
	plan->at = p->at;
	if (q->host)
		cc_plan(q, cost);
	if (!plan->rate)
		spend(p, e->len);
	else if (p->left > PACED_SHARE)
		p->left = PACED_SHARE;
	return STEP_SENT;
}

/* Appends e, which takes n PSNs of w, to the batch. */
static enum step put_packet(struct planning *p, struct emit *e, const struct swqe *w,
			    uint32_t n, uint32_t cost) REQUIRES(p->q->qp->lock)
{
	return plan(p, emit(p->q, p->b, e), e, w, n, cost);
}

/* Does the next packet ask for an ACK?  Each one does while an answer is awaited (burst),
 * and in a small window; else the last one of an output(): the packets of one leave
 * together.  If it turns out to be the last only later, emit_ask() makes up for it. */
static bool asks_for_ack(struct planning *p, bool last, uint32_t cost)
{
	struct ib_qp *q = p->q;

	return p->at.burst != NO_BURST || cc_must_ask(q, cost) ||
	       (last && p->at.cur + 1 == q->qp->sq.head);
}

/* Has this output() planned anything? */
static bool has_planned(const struct planning *p)
{
	return p->at.psn != p->q->req.at.psn;
}

/* UC and UD have no window.  Where the link took less than a burst,
 * nothing that is in flight may ask for an ACK, so the next packet waits for none. */
static inline bool admit(const struct planning *p, uint32_t cost)
{
	return !p->q->host || (p->at.unasked && !has_planned(p)) || cc_admit(p->q, cost);
}

static bool may_send(const struct planning *p, uint32_t cost)
{
	const struct ib_qp *q = p->q;

	return !q->qp->reliable ||
	       (psn_off(p->at.psn, q->req.s.una) < PSN_WINDOW - 1 && admit(p, cost));
}

/* The cost of what this output() may send of w, of which i packets are sent; the next
 * one costs `cost`.  All of it must find room in the window: a message that is cut where
 * the window ends leaves in more runs. */
static uint32_t part_cost(const struct planning *p, const struct swqe *w, uint32_t i,
			  uint32_t cost)
{
	const uint32_t mtu = p->q->mtu, each = mtu > REQ_PACKET ? mtu / REQ_PACKET : 1;
	uint32_t n = p->left / each, rest = w->npkts - i;

	n = n < rest ? n : rest;
	return n > 1 ? n * (mtu + CC_PACKET) : cost;
}

/* Packets from the middle of a message differ in PSN, AckReq and payload only. */
static enum step send_next(struct planning *p, const struct swqe *w)
	REQUIRES(p->q->qp->lock)
{
	struct ib_qp *q = p->q;
	const uint32_t cost = q->mtu + CC_PACKET;
	struct emit *e = &p->emit;

	if (!may_send(p, cost))
		return STEP_WAIT;
	e->f.psn = p->at.psn;
	e->f.ackreq = q->qp->reliable && asks_for_ack(p, false, cost);
	e->off += q->mtu;
	return plan(p, emit_next(q, p->b, e), e, w, 1, cost);
}

static enum step send_data(struct planning *p, struct swqe *w) REQUIRES(p->q->qp->lock)
{
	struct ib_qp *q = p->q;
	const struct wr *wr = &wrs[w->opcode];
	uint32_t i = psn_off(p->at.psn, w->psn), cost;
	bool last = i + 1 == w->npkts;
	struct emit *e = &p->emit;

	if (p->run && !last)
		return send_next(p, w);
	begin_packet(p, e, w);
	e->off = i * q->mtu;
	e->len = last ? w->length - e->off : q->mtu;
	e->span = &p->memory.span;
	e->f.opcode = ib_opcode(q->service, wr->kind, ib_place(i > 0, last),
				last ? wr->tail : IB_NONE);
	e->f.va = w->remote_addr;
	e->f.dma_len = w->length;
	e->f.imm = w->imm;
	e->f.inv_rkey = w->imm;
	e->f.se = last && w->flags & IBV_SEND_SOLICITED &&
		  (wr->kind == IB_SEND || wr->tail == IB_IMM);
	cost = e->len + CC_PACKET;
	if (!may_send(p, part_cost(p, w, i, cost)))
		return STEP_WAIT;
	if (resolve(p) != 0)
		return req_refuse(p, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_KEY);
	e->f.ackreq = q->qp->reliable && asks_for_ack(p, last, cost);
	p->run = i > 0 && !last;
	return put_packet(p, e, w, 1, cost);
}

static bool may_read(const struct planning *p)
{
	const struct send_limits limits = limits_of(p->q);

	return send_may_read(&p->q->req.s, &p->at, &limits);
}

/* Sends a READ, atomic, ATOMIC WRITE or FLUSH, and enters it in rd[].  The entry at
 * at.reads is valid only once the request has been sent. */
static enum step put_read(struct planning *p, struct emit *e, const struct swqe *w,
			  uint32_t npkts, uint32_t cost) REQUIRES(p->q->qp->lock)
{
	struct ib_req *r = &p->q->req;
	uint32_t i = p->at.reads % RD_MAX;
	enum step s;

	r->rd[i].psn = p->at.psn;
	r->rd[i].end = psn_add(p->at.psn, npkts);
	r->rd[i].fresh = is_fresh(p);
	p->at.reads++;
	e->f.ackreq = true;
	s = put_packet(p, e, w, npkts, cost);
	if (s != STEP_SENT)
		p->at.reads--;
	return s;
}

/* How many packets of response the request at packet i asks for. */
static uint32_t read_npkts(const struct swqe *w, uint32_t i)
{
	uint32_t n = w->chunk - i % w->chunk;

	return n < w->npkts - i ? n : w->npkts - i;
}

static enum step send_read(struct planning *p, struct swqe *w) REQUIRES(p->q->qp->lock)
{
	struct ib_qp *q = p->q;
	uint32_t i = psn_off(p->at.psn, w->psn), off = i * q->mtu;
	uint32_t n = read_npkts(w, i);
	uint32_t len = i + n == w->npkts ? w->length - off : n * q->mtu;
	struct emit e;

	if (!may_read(p) || psn_off(p->at.psn, q->req.s.una) + n > PSN_WINDOW ||
	    !admit(p, len + n * CC_PACKET))
		return STEP_WAIT;
	begin_packet(p, &e, w);
	e.f.opcode = ib_opcode(q->service, IB_READ, IB_ONLY, IB_NONE);
	e.f.va = w->remote_addr + off;
	e.f.dma_len = len;
	return put_read(p, &e, w, n, len + n * CC_PACKET);
}

static enum step send_atomic(struct planning *p, struct swqe *w) REQUIRES(p->q->qp->lock)
{
	bool cas = w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	struct ib_qp *q = p->q;
	struct emit e;

	if (!may_read(p) || psn_off(p->at.psn, q->req.s.una) >= PSN_WINDOW - 1 ||
	    !admit(p, 8 + CC_PACKET))
		return STEP_WAIT;
	begin_packet(p, &e, w);
	e.f.opcode =
		ib_opcode(q->service, cas ? IB_CMP_SWAP : IB_FETCH_ADD, IB_ONLY, IB_NONE);
	e.f.va = w->remote_addr;
	e.f.swap_add = cas ? w->atomic.swap : w->atomic.compare_add;
	e.f.compare = cas ? w->atomic.compare_add : 0;
	return put_read(p, &e, w, 1, 8 + CC_PACKET);
}

/* A19: an atomic write has its payload and place as a WRITE has; it is answered and
 * counted as a READ. */
static enum step send_atomic_write(struct planning *p, struct swqe *w)
	REQUIRES(p->q->qp->lock)
{
	struct ib_qp *q = p->q;
	const uint32_t cost = w->length + CC_PACKET;
	struct emit e;

	if (!may_read(p) || !may_send(p, cost))
		return STEP_WAIT;
	if (resolve(p) != 0)
		return req_refuse(p, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_KEY);
	begin_packet(p, &e, w);
	e.f.opcode = ib_opcode(q->service, IB_ATOMIC_WRITE, IB_ONLY, IB_NONE);
	e.f.va = w->remote_addr;
	e.f.dma_len = e.len = w->length;
	e.span = &p->memory.span;
	return put_read(p, &e, w, 1, cost);
}

/* A19: the place of a READ, no payload; answered, and so counted, as a READ. */
static enum step send_flush(struct planning *p, struct swqe *w) REQUIRES(p->q->qp->lock)
{
	struct ib_qp *q = p->q;
	struct emit e;

	if (!may_read(p) || !may_send(p, CC_PACKET))
		return STEP_WAIT;
	begin_packet(p, &e, w);
	e.f.opcode = ib_opcode(q->service, IB_FLUSH, IB_ONLY, IB_NONE);
	e.f.flush = w->flush.feth;
	e.f.va = w->remote_addr;
	e.f.dma_len = w->flush.length;
	return put_read(p, &e, w, 1, CC_PACKET);
}

static enum step step(struct planning *p) REQUIRES(p->q->qp->lock)
{
	const struct ib_req *r = &p->q->req;
	struct qp *qp = p->q->qp;
	struct swqe *w = current(p);

	if (!send_any(qp, &r->s, &p->at) || p->now < r->s.rnr_until ||
	    (p->at.burst == 0 && p->at.psn != r->s.una))
		return STEP_WAIT;
	if (!send_has_begun(&p->at)) {
		enum step s = begin_request(p, w);

		if (s != STEP_GO)
			return s;
	}
	switch ((enum ib_kind)wrs[w->opcode].kind) {
	case IB_SEND:
	case IB_WRITE:
		return send_data(p, w);
	case IB_READ:
		return send_read(p, w);
	case IB_CMP_SWAP:
	case IB_FETCH_ADD:
		return send_atomic(p, w);
	case IB_ATOMIC_WRITE:
		return send_atomic_write(p, w);
	case IB_FLUSH:
		return send_flush(p, w);
	case IB_READ_RESP:
	case IB_ATOMIC_RESP:
	case IB_ACK:
	case IB_CONGESTION:
	case IB_KINDS:
		break; /* no requests */
	}
	return STEP_WAIT;
}

/* Is this output() nearly over, and the run full?  What is left of the share would be a
 * short run, which costs the kernel as much as a long one. */
static bool ends_here(const struct planning *p)
{
	return p->left <= 4096 / REQ_PACKET && batch_run_is_full(p->b);
}

/* Returns true if the QP has more to send. */
static bool plan_all(struct planning *p) REQUIRES(p->q->qp->lock)
{
	while (p->left > 0) {
		switch (step(p)) {
		case STEP_GO:
			break;
		case STEP_SENT:
			p->left--;
			if (ends_here(p))
				return true;
			break;
		case STEP_NEXT:
			p->left--;
			break;
		case STEP_WAIT:
			if (p->q->host)
				cc_wake(p->q->host);
			return false;
		case STEP_FULL:
			return true;
		}
	}
	return true;
}

bool req_output(struct ib_qp *q, struct batch *b, uint64_t now)
{
	struct planning p;
	bool more;

	p.q = q; /* no initialiser: p.memory.span is large */
	qp_is_held(p.q->qp);
	p.b = b;
	p.at = q->req.at;
	p.now = now;
	p.left = REQ_SHARE;
	p.memory.resolved = p.run = false;
	cc_answer(q);
	more = plan_all(&p);
	if (has_planned(&p) && p.at.unasked)
		emit_ask(q, b);
	return more;
}
