/* SPDX-License-Identifier: BSD-2-Clause */
/* write.c - requests become segments in the ring: by the thread that posts them, without
 * the turn, or by the engine.
 *
 * The ring's lock (peer_lock()) is held from the look at a key to the end of the copy.
 * Deregistration passes it, so that nobody copies from a region that is gone. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "direct/post.h"
#include "shm/shm_qp.h"
#include "sys/checks.h"
#include "sys/clock.h"
#include "sys/guard.h"
#include "verbs/device.h"
#include "verbs/draft.h"
#include "verbs/due.h"
#include "verbs/round.h"
#include "wire/ib_opcode.h"

enum {
	/* Of a request that a posting thread sends; a fence is the engine's. */
	WHOLE_FLAGS = SEND_FLAGS & ~IBV_SEND_FENCE,
	ASK_EVERY = 32, /* requests without a completion that share one ACK */
	SHARE = 64,	/* segments in one output() */
	UNIT = 4096,	/* bytes that count as one datagram of a turn's work */
};

/* Numbers in flight: a request begins below half of the window, and what threads post
 * meanwhile has one number each. */
enum { SEGMENTS_MAX = (1u << 31) / RING_CHUNK, REQUESTS_MAX = 1 << 16 };
static_assert(PSN_WINDOW / 2 + SEGMENTS_MAX + REQUESTS_MAX < PSN_WINDOW,
	      "a post need not count them");

/* --- a segment ------------------------------------------------------------- */

/* Fills the header of the segment at r; wide: it has the second one, too. */
static inline void put_head(struct shm_qp *q, struct rec *r, unsigned op, bool wide,
			    const struct swqe *w, bool asks)
{
	const bool se = op & SEGMENT_LAST && w->flags & IBV_SEND_SOLICITED;

	memcpy(r, &q->head, REC_HEAD);
	r->flags = (uint8_t)((se ? REC_SE : 0) | (asks ? REC_ACKREQ : 0) |
			     (wide ? REC_WIDE : 0));
	r->opcode = (uint8_t)op;
	r->psn = q->src.at.psn;
	r->data = w->imm;
}

/* For checks: the request was posted before this time. */
__attribute__((noinline)) static void put_time(struct rec *r)
{
	const bool cas = segment_kind(r->opcode) == KIND_CMP_SWAP;
	const uint64_t now = clock_ns();

	r->flags |= REC_TIMED;
	memcpy(cas ? (void *)(r + 1) : &r->compare, &now, sizeof(now));
}

/* The segment at r, with len bytes of payload, is whole. */
static inline void publish(struct shm_qp *q, struct rec *r, const struct swqe *w,
			   uint32_t head, uint32_t len, bool asks)
{
	struct peer *p = q->peer;

	ring_publish(&p->out, r, head + len);
	q->qp->tp.traffic.sent++;
	q->qp->tp.traffic.sent_bytes += len;
	send_move(&q->src.s, &q->src.at, w, 1);
	q->src.written = p->out.head;
	if (asks && !q->src.listed) {
		q->src.listed = true;
		list_add_tail(&p->unanswered, &q->ack);
	}
}

/* The segment at r, of a SEND or WRITE, is whole but for its header. */
__attribute__((always_inline)) static inline void publish_data(struct shm_qp *q,
							       struct rec *r, unsigned op,
							       bool wide,
							       const struct swqe *w,
							       uint32_t len, bool asks)
{
	put_head(q, r, op, wide, w, asks);
	if (wide) {
		r->va = w->remote_addr;
		r->rkey = w->rkey;
		r->len = w->length;
		if (__builtin_expect(checks_time, 0))
			put_time(r);
	}
	publish(q, r, w, wide ? REC_HEAD_WIDE : REC_HEAD, len, asks);
}

/* The end of a request without a completion need not be acknowledged by itself, unless
 * the send queue fills. */
static inline bool asks_for_ack(struct shm_qp *q, const struct swqe *w)
{
	const struct sq *sq = &q->qp->sq;

	if (!(w->flags & IBV_SEND_SIGNALED) && ++q->src.at.unasked < ASK_EVERY &&
	    sq->head - sq->tail < sq->cap / 2)
		return false;
	q->src.at.unasked = 0;
	return true;
}

/* What the kinds of requests in verbs/wr_op.def are in segments. */
enum {
	OF_IB_SEND = KIND_SEND,
	OF_IB_WRITE = KIND_WRITE,
	OF_IB_READ = KIND_READ,
	OF_IB_CMP_SWAP = KIND_CMP_SWAP,
	OF_IB_FETCH_ADD = KIND_FETCH_ADD,
	OF_IB_ATOMIC_WRITE = KIND_ATOMIC_WRITE,
	OF_IB_FLUSH = KIND_FLUSH,
	OF_0 = KINDS, /* no segment: binds, invalidations */
};
static const struct form {
	uint8_t kind, end; /* end: of the last segment */
} forms[] = {
#define OP(name, types, traits, wc, claim, ib_kind, ib_tail, rdmap)                      \
	[IBV_WR_##name] = { OF_##ib_kind, (ib_tail) == IB_IMM	? SEGMENT_IMM            \
					  : (ib_tail) == IB_INV ? SEGMENT_INV            \
								: 0 },
#include "verbs/wr_op.def"
};

static unsigned op_of(const struct swqe *w, bool first, bool last)
{
	const struct form *form = &forms[w->opcode];

	return (unsigned)form->kind << SEGMENT_KIND_AT | (first ? SEGMENT_FIRST : 0) |
	       (last ? SEGMENT_LAST | form->end : 0);
}

/* A SEND or WRITE, with immediate data if the opcode is odd. */
static inline bool may_be_whole(unsigned opcode)
{
	return opcode <= IBV_WR_SEND_WITH_IMM;
}

/* --- by the thread that posts ---------------------------------------------- */

/* Copies the payload, of one SGE.  Returns false if the engine has to judge it. */
static inline bool copy_one(struct shm_qp *q, void *to, const struct ibv_sge *sge)
{
	struct qp *qp = q->qp;
	const uint32_t len = sge->length;
	uint8_t *from;
	int rc;

	if (!len)
		return true;
	from = mr_again(qp->core, &q->src.from, sge->lkey, sge->addr, len, 0);
	if (!from && mr_check_inside(qp->core, &q->src.from, sge->lkey, qp->pd, sge->addr,
				     len, 0, &from) != MR_OK)
		return false;
	guard_enter();
	rc = guard_copy(to, from, len);
	guard_leave();
	return rc == 0;
}

/* Copies the payload, of n SGEs and len bytes. */
static inline bool copy_all(struct shm_qp *q, uint8_t *to, const struct ibv_sge *sge,
			    unsigned n, uint32_t len)
{
	if (n == 1)
		return copy_one(q, to, sge);
	for (unsigned i = 0; i < n; to += sge[i].length, len -= sge[i++].length)
		if (sge[i].length > len || !copy_one(q, to, &sge[i]))
			return false;
	return !len;
}

/* Most inline data is a word. */
static inline void copy_inline(void *to, const void *from, uint32_t len)
{
	if (len == 8)
		memcpy(to, from, 8);
	else
		memcpy(to, from, len);
}

/* Writes w, a SEND or WRITE of one segment that is next.  own: its inline data, or NULL:
 * its payload is where n SGEs say. */
__attribute__((always_inline)) static inline bool put_whole(struct shm_qp *q,
							    struct swqe *w, bool write,
							    const void *own,
							    const struct ibv_sge *sge,
							    unsigned n)
{
	const unsigned op = SEGMENT_ONLY | (w->opcode & 1 ? SEGMENT_IMM : 0) |
			    (write ? KIND_WRITE << SEGMENT_KIND_AT : 0);
	const uint32_t head = write ? REC_HEAD_WIDE : REC_HEAD;
	struct rec *r = ring_reserve_near(&q->peer->out, head + w->length);
	void *to;
	bool asks;

	if (!r)
		return false;
	to = (uint8_t *)r + head;
	if (own)
		copy_inline(to, own, w->length);
	else if (!copy_all(q, to, sge, n, w->length))
		return false;
	asks = asks_for_ack(q, w);
	send_begin(&q->src.at, w, 1);
	publish_data(q, r, op, write, w, w->length, asks);
	return true;
}

__attribute__((noinline)) static bool write_whole(struct shm_qp *q, struct swqe *w,
						  const void *own,
						  const struct ibv_sge *sge)
{
	return put_whole(q, w, true, own, sge, w->num_sge);
}

__attribute__((noinline)) static bool send_whole(struct shm_qp *q, struct swqe *w,
						 const void *own,
						 const struct ibv_sge *sge)
{
	return w->opcode >= IBV_WR_SEND ? put_whole(q, w, false, own, sge, w->num_sge)
					: write_whole(q, w, own, sge);
}

/* Takes over the SGEs of wr, or the inline data at them, which become one SGE.  Returns
 * false if they are more than one segment, or what ibv_post_send() refuses. */
static bool take_pieces(const struct sq *sq, struct swqe *w, struct ibv_sge *sge,
			void *own, const struct ibv_send_wr *wr)
{
	const uint32_t most =
		own && sq->max_inline < RING_CHUNK ? sq->max_inline : RING_CHUNK;
	const unsigned n = (unsigned)wr->num_sge;
	uint32_t len = 0;

	if (n > sq->max_sge || (n && !wr->sg_list))
		return false;
	for (unsigned i = 0; i < n; i++) {
		const struct ibv_sge from = wr->sg_list[i];

		if (from.length > most - len)
			return false;
		if (own && from.length)
			memcpy((uint8_t *)own + len, (const void *)(uintptr_t)from.addr,
			       from.length);
		else if (!own)
			sge[i] = from;
		len += from.length;
	}
	if (own)
		*sge = (struct ibv_sge){ .addr = (uintptr_t)own, .length = len };
	w->num_sge = own ? 1 : (uint16_t)n;
	w->length = len;
	return true;
}

/* post_one() of any number of SGEs but one. */
__attribute__((noinline)) static bool post_pieces(struct shm_qp *q,
						  const struct ibv_send_wr *wr)
	REQUIRES(q->qp->lock)
{
	struct sq *sq = &q->qp->sq;
	const uint32_t at = sq->head & (sq->size - 1);
	struct swqe *w = &sq->wqe[at];
	struct ibv_sge *sge = &sq->sge[at * sq->max_sge];
	void *own = NULL;

	if (wr->send_flags & IBV_SEND_INLINE) {
		if (!sq->inl)
			return false;
		own = sq->inl + (size_t)at * sq->max_inline;
	}
	if (!take_pieces(sq, w, sge, own, wr))
		return false;
	post_take_over(q->qp, w, wr, wr->opcode < IBV_WR_SEND);
	if (!send_whole(q, w, own, sge))
		return false;
	sq->head++;
	return true;
}

/* Posts and sends wr, if it is a SEND or WRITE of one segment.  room: where the program's
 * places end; requests of the QP's own (verbs/srq_hooks.h) may lie beyond. */
static inline bool post_one(struct shm_qp *q, const struct ibv_send_wr *wr, uint32_t room)
	REQUIRES(q->qp->lock)
{
	struct qp *qp = q->qp;
	struct sq *sq = &qp->sq;
	const uint32_t at = sq->head & (sq->size - 1);
	struct swqe *w = &sq->wqe[at];
	struct ibv_sge *sge = &sq->sge[at * sq->max_sge];
	void *own = NULL;

	if (!may_be_whole(wr->opcode) || wr->send_flags & ~(unsigned)WHOLE_FLAGS ||
	    (int32_t)(room - sq->head) <= 0)
		return false;
	if (wr->num_sge != 1)
		return post_pieces(q, wr);
	if (!wr->sg_list)
		return false;
	*sge = *wr->sg_list;
	if (sge->length > RING_CHUNK)
		return false;
	if (wr->send_flags & IBV_SEND_INLINE) {
		if (sge->length > sq->max_inline || !sge->length)
			return false;
		own = sq->inl + (size_t)at * sq->max_inline;
		copy_inline(own, (const void *)(uintptr_t)sge->addr, sge->length);
		sge->addr = (uintptr_t)own;
	}
	w->length = sge->length;
	w->num_sge = 1;
	post_take_over(qp, w, wr, wr->opcode < IBV_WR_SEND);
	if (!(wr->opcode >= IBV_WR_SEND ? put_whole(q, w, false, own, sge, 1)
					: write_whole(q, w, own, sge)))
		return false;
	sq->head++;
	return true;
}

/* What is left after the posting thread has given qp->lock, which is the fence between
 * the segments and the look whether the peer sleeps (lock_fence()). */
static inline enum post_left left_by(const struct peer *p, bool due)
{
	lock_fence();
	if (due || atomic_load_explicit(&p->out.s->want_kick, memory_order_relaxed))
		return POST_DUE;
	return p == p->l->self ? POST_ECHO : POST_NOTHING;
}

/* Must run() set a timer? */
static inline bool wants_timer(struct shm_qp *q)
{
	if (q->src.timed)
		return false;
	q->src.timed = true;
	return true;
}

/* Has the QP nothing to do but to send what is posted next?  While it goes back, waits
 * for the end of an RNR NAK's time, or has failed, there are requests at its cursor. */
static inline bool is_straight(const struct qp *qp, const struct shm_qp *q)
{
	return qp->state == IBV_QPS_RTS && q->src.at.cur == qp->sq.head &&
	       !qp->builder.active &&
	       !atomic_load_explicit(&q->peer->closed, memory_order_relaxed);
}

/* *wr reaches into the peer's memory: posts what this thread can do there.  Returns
 * whether the rest, if any, goes by the ring. */
__attribute__((noinline)) static bool post_directly(struct shm_qp *q,
						    struct ibv_send_wr **wr,
						    enum post_left *left)
	REQUIRES(q->qp->lock)
{
	struct qp *qp = q->qp;

	qp_is_held(qp);
	if (post_may_be_at_once(qp)) {
		*wr = way_at_once(qp, *wr);
		qp->sq.draft = qp->sq.head;
		if (!is_straight(qp, q)) {
			*left = POST_DUE;
			return false;
		}
		if (!*wr || !is_direct((*wr)->opcode))
			return *wr;
	}
	return way_is_ring(q, *wr);
}

struct ibv_send_wr *shm_post(struct qp *qp, struct ibv_send_wr *wr, enum post_left *left)
{
	struct ibv_send_wr *first;
	struct shm_qp *q;
	struct peer *p;
	bool due;

	*left = POST_NOTHING;
	lock_take(&qp->lock);
	q = shm_qp(qp);
	if (__builtin_expect(qp->transport != &shm_transport || !is_straight(qp, q), 0)) {
		lock_give(&qp->lock);
		return wr;
	}
	qp_is_held(q->qp);
	if (is_direct(wr->opcode) && !post_directly(q, &wr, left)) {
		lock_give(&qp->lock);
		return wr;
	}
	first = wr;
	p = q->peer;
	brief_take(&p->writing);
	for (const uint32_t room = sq_end(&qp->sq); wr && post_one(q, wr, room);)
		wr = wr->next;
	brief_give(&p->writing);
	qp->sq.draft = qp->sq.head;
	due = wr != first && (wants_timer(q) || way_has_uses(q));
	lock_give(&qp->lock);
	if (wr != first)
		*left = left_by(p, due);
	return wr;
}

static bool has_window(const struct shm_qp *q)
{
	return psn_off(q->src.at.psn, q->src.s.una) < PSN_WINDOW / 2;
}

/* Are the requests at the cursor new, and may a thread that posts send them? */
static bool may_push(const struct qp *qp, const struct shm_qp *q)
{
	return qp->state == IBV_QPS_RTS && !send_has_begun(&q->src.at) &&
	       !q->src.s.rnr_until && !q->src.s.failed && has_window(q) &&
	       !atomic_load_explicit(&q->peer->closed, memory_order_relaxed);
}

/* Sends what was posted by ibv_wr_complete(), as far as it needs no engine. */
enum post_left shm_push(struct qp *qp)
{
	struct shm_qp *q;
	struct peer *p;
	bool due, by_ring;

	lock_take(&qp->lock);
	q = shm_qp(qp);
	if (qp->transport != &shm_transport || !may_push(qp, q)) {
		lock_give(&qp->lock);
		return POST_DUE;
	}
	p = q->peer;
	qp_is_held(q->qp);
	brief_take(&p->writing);
	while (q->src.at.cur != qp->sq.head) {
		struct swqe *w = sq_at(&qp->sq, q->src.at.cur);
		const struct ibv_sge *sge = sq_sges(&qp->sq, q->src.at.cur);
		const void *own = NULL;

		if (!may_be_whole(w->opcode) || w->length > RING_CHUNK ||
		    w->flags & IBV_SEND_FENCE)
			break;
		if (is_direct(w->opcode)) {
			/* It may complete the request before. */
			brief_give(&p->writing);
			by_ring = way_is_ring_for(q, w, 0);
			brief_take(&p->writing);
			if (!by_ring)
				break;
		}
		if (w->flags & IBV_SEND_INLINE)
			own = (const void *)(uintptr_t)sge->addr;
		if (!send_whole(q, w, own, sge))
			break;
	}
	brief_give(&p->writing);
	due = q->src.at.cur != qp->sq.head || wants_timer(q) || way_has_uses(q);
	lock_give(&qp->lock);
	return left_by(p, due);
}

/* --- by the engine --------------------------------------------------------- */

enum next { NEXT_SENT, NEXT_WAITS, NEXT_FULL, NEXT_FAILED };

static enum next refuse_request(struct shm_qp *q, enum ibv_wc_status status,
				enum verr verr, uint64_t now) REQUIRES(q->qp->lock)
{
	src_error(q, status, verr, now);
	return NEXT_FAILED;
}

static enum next work_locally(struct shm_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	enum ibv_wc_status st;
	enum verr verr;

	qp_is_held(q->qp);
	switch (send_locally(q->qp, &q->src.at, &st, &verr, now)) {
	case END_WAITS:
		return NEXT_WAITS;
	case END_FAILED:
		return refuse_request(q, st, verr, now);
	case END_DONE:
		break;
	}
	shm_settle(q); /* its CQ may be overrun */
	return NEXT_SENT;
}

/* Gives the request at the cursor, which is new, its numbers.  *done: it needs none. */
static enum next begin_request(struct shm_qp *q, struct swqe *w, struct wqe_memory *m,
			       bool *done, uint64_t now) REQUIRES(q->qp->lock)
{
	const struct send_limits limits = {
		.reads = q->qp->attr.max_rd_atomic,
		.bytes = caps.max_msg,
	};
	int rc;

	switch (send_may(q->qp, &q->src.s, &q->src.at, w, &limits)) {
	case SEND_GO:
		break;
	case SEND_WAIT:
		return NEXT_WAITS;
	case SEND_LOCAL:
		*done = true;
		return work_locally(q, now);
	case SEND_BAD_OP:
		return refuse_request(q, IBV_WC_LOC_QP_OP_ERR, VERR_LOCAL_OPERATION, now);
	case SEND_TOO_LONG:
		return refuse_request(q, IBV_WC_LOC_LEN_ERR, VERR_TOO_LONG, now);
	}
	if (!has_window(q) ||
	    (wqe_is_read(w) && !send_may_read(&q->src.s, &q->src.at, &limits)))
		return NEXT_WAITS;
	rc = wqe_resolve(q->qp, q->src.at.cur, m);
	if (rc)
		return refuse_request(q, IBV_WC_LOC_PROT_ERR, verr_of(rc), now);
	send_begin(&q->src.at, w,
		   w->length && !wqe_is_atomic(w) ? (w->length - 1) / RING_CHUNK + 1 : 1);
	return NEXT_SENT;
}

/* Returns 0, -ENOBUFS, or -EFAULT.  The ring's lock is held. */
static int copy_segment(struct shm_qp *q, unsigned op, const struct swqe *w,
			const struct span *span, uint32_t off, uint32_t len)
{
	const uint32_t head = segment_head(op);
	struct rec *r = ring_reserve(&q->peer->out, head + len);

	if (!r)
		return -ENOBUFS;
	if (len && span_copy((uint8_t *)r + head, span, off, len))
		return -EFAULT;
	publish_data(q, r, op, segment_is_wide(op), w, len,
		     op & SEGMENT_LAST && asks_for_ack(q, w));
	return 0;
}

/* UC waits for nobody: is what finds no room, or no peer yet, lost? */
static bool is_lost(struct shm_qp *q, uint64_t now)
{
	return !q->qp->reliable &&
	       (q->peer->state == PEER_DEAD || !peer_reads(q->peer, now));
}

/* May the QP write to the ring? */
static bool may_write(const struct shm_qp *q)
{
	return q->peer->state == PEER_UP && line_lets(q->peer, &q->lists);
}

/* Writes the next segment of the request at the cursor. */
static enum next write_segment(struct shm_qp *q, const struct swqe *w,
			       struct wqe_memory *m, uint64_t now) REQUIRES(q->qp->lock)
{
	const uint32_t nth = psn_off(q->src.at.psn, w->psn), off = nth * RING_CHUNK;
	const bool last = nth + 1 == w->npkts;
	const uint32_t len = last ? w->length - off : RING_CHUNK;
	const unsigned op = op_of(w, nth == 0, last);
	int rc = wqe_resolve(q->qp, q->src.at.cur, m);

	if (!rc && q->peer->state != PEER_UP) {
		rc = -ENOBUFS;
	} else if (!rc) {
		peer_lock(q->peer);
		rc = copy_segment(q, op, w, &m->span, off, len);
		peer_unlock(q->peer);
	}
	if (rc == -ENOBUFS) {
		if (!is_lost(q, now))
			return NEXT_FULL;
		send_move(&q->src.s, &q->src.at, w, 1);
		rc = 0;
	}
	if (rc)
		return refuse_request(q, IBV_WC_LOC_PROT_ERR, verr_of(rc), now);
	q->qp->core->round.spent += len / UNIT + 1;
	return NEXT_SENT;
}

/* Writes segment nth of w, which asks for an answer of len bytes.  Returns 0; -ENOBUFS;
 * -EAGAIN: the answer has no place now; -EFAULT.  The ring's lock is held. */
static int copy_ask(struct shm_qp *q, const struct swqe *w, const struct span *value,
		    uint32_t nth, uint32_t len)
{
	const unsigned op = op_of(w, true, true), kind = segment_kind(op);
	const uint32_t value_len = kind == KIND_ATOMIC_WRITE ? w->length : 0;
	const bool timed = checks_time;
	const uint32_t carried = timed && kind == KIND_CMP_SWAP ? TIME_BYTES : value_len;
	struct ask *a = ask_find(q, len);
	struct rec *r;

	if (!a)
		return -EAGAIN;
	/* Nothing may keep the record back now: a pad alone is not told to have been
	 * read. */
	r = ring_reserve(&q->peer->out, REC_HEAD_WIDE + carried);
	if (!r)
		return -ENOBUFS;
	if (value_len && span_copy((uint8_t *)r + REC_HEAD_WIDE, value, 0, value_len))
		return -EFAULT;
	a->last = nth + 1 == w->npkts;
	if (nth == 0)
		q->src.at.reads++;
	put_head(q, r, op, true, w, true);
	r->psn |= (q->src.at.reads - q->src.s.answered) << OUTSTANDING_AT;
	r->data = kind == KIND_FLUSH ? w->flush.feth : a->place;
	r->va = w->remote_addr + (uint64_t)nth * RING_CHUNK;
	r->rkey = w->rkey;
	r->len = kind == KIND_FLUSH ? w->flush.length : len + value_len;
	if (wqe_is_atomic(w)) {
		const bool cas = kind == KIND_CMP_SWAP;

		r->compare = w->atomic.compare_add; /* of a fetch-and-add: unused */
		r->swap_add = cas ? w->atomic.swap : w->atomic.compare_add;
	}
	if (timed)
		put_time(r);
	publish(q, r, w, REC_HEAD_WIDE, carried, true);
	ask_sent(q);
	return 0;
}

/* The length of the answer to segment nth of w. */
static uint32_t answer_len(const struct swqe *w, uint32_t nth)
{
	if (wqe_is_atomic(w))
		return 8;
	if (w->opcode != IBV_WR_RDMA_READ)
		return 0;
	return nth + 1 == w->npkts ? w->length - nth * RING_CHUNK : RING_CHUNK;
}

/* Asks for the next answer to the request at the cursor. */
static enum next write_ask(struct shm_qp *q, const struct swqe *w, struct wqe_memory *m,
			   uint64_t now) REQUIRES(q->qp->lock)
{
	const uint32_t nth = psn_off(q->src.at.psn, w->psn);
	int rc = wqe_resolve(q->qp, q->src.at.cur, m);

	if (!rc) {
		peer_lock(q->peer);
		rc = copy_ask(q, w, &m->span, nth, answer_len(w, nth));
		peer_unlock(q->peer);
	}
	if (rc == -EAGAIN)
		return NEXT_WAITS;
	if (rc == -ENOBUFS)
		return NEXT_FULL;
	if (rc)
		return refuse_request(q, IBV_WC_LOC_PROT_ERR, verr_of(rc), now);
	q->qp->core->round.spent++;
	return NEXT_SENT;
}

/* Does the next step of the request at the cursor. */
static enum next write_next(struct shm_qp *q, struct wqe_memory *m, unsigned *left,
			    uint64_t now) REQUIRES(q->qp->lock)
{
	struct swqe *w = sq_at(&q->qp->sq, q->src.at.cur);
	enum next next = NEXT_SENT;
	bool done = false;

	if (!send_has_begun(&q->src.at)) {
		next = begin_request(q, w, m, &done, now);
		if (next != NEXT_SENT || done)
			return next;
	}
	switch (way_step(q, w, m, left, now)) {
	case WAY_COPIED:
		return NEXT_SENT;
	case WAY_WAITS:
		return NEXT_WAITS;
	case WAY_BY_RING:
		break;
	}
	next = wqe_is_read(w) ? write_ask(q, w, m, now) : write_segment(q, w, m, now);
	if (!q->qp->reliable)
		src_sent(q, now);
	return next;
}

/* Returns whether the QP could send more now. */
static bool write_all(struct shm_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct wqe_memory m = { .resolved = false };
	struct qp *qp = q->qp;
	struct peer *p = q->peer;
	enum next next = NEXT_SENT;
	unsigned left = SHARE;
	bool turn, may = true;

	turn = line_begin(p, &q->lists);
	for (; next == NEXT_SENT && left && send_any(qp, &q->src.s, &q->src.at) &&
	       (may = may_write(q) || is_lost(q, now));
	     left--)
		next = write_next(q, &m, &left, now);
	/* A peer that sleeps over a full ring must be woken, too, but none whose memory
	 * was reached without its help. */
	if (src_is_waiting(q) || !qp->reliable || next == NEXT_FULL || !may)
		peer_wrote(p);
	if (next == NEXT_FULL || !may)
		line_wait(p, &q->lists, next == NEXT_FULL);
	if (next == NEXT_FULL)
		qp->core->round.bulk = true;
	if (turn)
		line_end(p, &q->lists);
	peer_let_posters(p);
	return next == NEXT_SENT && may && send_any(qp, &q->src.s, &q->src.at);
}

bool shm_output(struct qp *qp, struct batch *b, uint64_t now)
{
	struct shm_qp *q = shm_qp(qp);
	bool more = false;

	(void)b;
	qp_is_held(qp);
	qp_is_held(q->qp);
	if (!q->peer || (q->peer->state != PEER_UP && qp->reliable))
		return false;
	/* A posting thread may have left the KICK to this turn. */
	if (src_is_waiting(q) || !qp->reliable)
		peer_wrote(q->peer);
	if (peer_stays_locked(q->peer))
		return false;
	if (way_has_uses(q))
		way_tell_uses(q);
	if ((qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD) ||
	    q->src.s.rnr_until) {
		line_leave(q->peer, &q->lists);
		return false;
	}
	if (send_any(qp, &q->src.s, &q->src.at))
		more = write_all(q, now);
	else
		line_leave(q->peer, &q->lists);
	shm_settle(q);
	return more;
}

bool write_word(struct shm_qp *q, uint64_t word)
{
	struct peer *p = q->peer;
	struct rec *r;

	peer_lock(p);
	r = ring_reserve_answer(&p->out);
	if (r) {
		memcpy(r, &q->head, REC_HEAD);
		r->opcode = KIND_WORD << SEGMENT_KIND_AT;
		r->psn = (uint32_t)word;
		r->data = (uint32_t)(word >> 32);
		ring_publish(&p->out, r, REC_HEAD);
	}
	peer_unlock(p);
	if (r)
		peer_wrote(p);
	return r;
}
