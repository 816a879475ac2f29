/* SPDX-License-Identifier: BSD-2-Clause */
/* target.c - segments that come in, and the word that says what became of them (IBTA
 * vol. 1, 9.7.5). */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "shm/shm.h"
#include "shm/shm_qp.h"
#include "sys/checks.h"
#include "sys/guard.h"
#include "sys/log.h"
#include "verbs/await.h"
#include "verbs/due.h"
#include "verbs/source.h"
#include "verbs/target.h"
#include "verbs/timeout.h"

#define NOT_READY "the QP takes packets from RTR on, and not in ERR"

enum {
	/* To who begins with a wrong number the right one is said so often. */
	ASTRAY_NS = 100000000,
};

/* --- the word --------------------------------------------------------------- */

static inline void tell_word(struct shm_qp *q, uint8_t syndrome, bool asked)
{
	const uint64_t word =
		q->dst.says | (uint64_t)syndrome << WORD_SYNDROME_AT | q->dst.expected;

	atomic_store_explicit(q->word, word, memory_order_release);
	if (asked)
		peer_nudge(q->peer, word);
}

static void set_says(struct shm_qp *q)
{
	q->dst.says = word_of(q->qp->attr.dest_qp_num, q->dst.life) |
		      (uint64_t)q->dst.count << WORD_COUNT_AT;
}

static void tell_nak(struct shm_qp *q, enum aeth_type type, unsigned value)
{
	q->dst.count = (q->dst.count + 1) & COUNT_MASK;
	set_says(q);
	tell_word(q, aeth_syndrome(type, value), true);
}

/* Asks for all segments from the expected one on, at no cost. */
static void ask_again(struct shm_qp *q)
{
	tell_nak(q, AETH_NAK, NAK_PSN_SEQUENCE);
}

static void end_wait(struct shm_qp *q) REQUIRES(q->qp->lock)
{
	if (!q->dst.wait.until)
		return;
	q->dst.wait.until = 0;
	qp_is_held(q->qp);
	qp_await_no_recv(q->qp);
}

void dst_reset(struct shm_qp *q)
{
	const uint32_t count = q->dst.count; /* a source may not be reset */

	end_wait(q); /* its SRQ must not name a QP that ends */
	memset(&q->dst, 0, sizeof(q->dst));
	q->dst.count = count;
	q->dst.odd = DST_CLOSED;
}

/* Where the ring ends now: what lies before is of a former connection, or came before
 * this QP was ready and is asked for. */
static uint32_t end_of_ring(const struct peer *p)
{
	struct ring_in eye = p->in;
	const uint8_t *payload;
	struct rec r;
	uint32_t len;

	/* A hostile writer may go on writing meanwhile. */
	while (eye.tail - p->in.tail < RING_SLOTS &&
	       ring_next(&eye, &r, &payload, &len) > 0)
		ring_release(&eye, &r);
	return eye.tail;
}

void dst_open(struct shm_qp *q)
{
	const struct qp *qp = q->qp;

	dst_reset(q);
	if (!q->peer || !peer_has_met(q->peer))
		return;
	q->dst.expected = qp->attr.rq_psn & PSN_MASK;
	q->dst.stale = end_of_ring(q->peer);
	if (qp->reliable) {
		q->dst.odd = 0;
		ask_again(q);
		return;
	}
	/* It was ready before; and what UC has written is not asked for. */
	if (q->peer->fresh)
		q->dst.stale = q->peer->in.tail;
	q->dst.odd = DST_UNRELIABLE;
}

/* The word will serve the next QP of this number, so what it says goes into the ring.  If
 * that has no room the word stays until dst_open(). */
void dst_close(struct shm_qp *q)
{
	uint64_t word;

	if (q->dst.odd & DST_CLOSED)
		return;
	q->dst.odd |= DST_CLOSED;
	if (!q->word)
		return;
	word = atomic_load_explicit(q->word, memory_order_relaxed);
	if (q->peer->state != PEER_UP || !q->dst.life || write_word(q, word))
		atomic_store(q->word, 0);
}

void dst_stop(struct shm_qp *q)
{
	q->dst.target.have_recv = false; /* verbs flushes that receive */
	end_wait(q);
}

/* --- no receive ------------------------------------------------------------- */

static void say_rnr(struct shm_qp *q, uint64_t now)
{
	hint_no_recv(q, now);
	shm_count(q, IB_TX_RNR);
	tell_nak(q, AETH_RNR_NAK, q->qp->attr.min_rnr_timer);
}

/* The segment is consumed.  The QP waits a little for a receive, and then says RNR
 * (docs/dev/ib.md says why). */
static void no_recv(struct shm_qp *q, const struct rec *r, uint64_t now)
	REQUIRES(q->qp->lock)
{
	struct qp *qp = q->qp;
	char from[PEER_TEXT];
	uint64_t ns;

	q->dst.odd |= DST_GAP; /* the segments that follow are asked for with this one */
	if (q->dst.odd & DST_MISSED || !qp->core->recv_wait_ns) {
		say_rnr(q, now);
		return;
	}
	shm_count(q, IB_RX_LATE);
	ns = recv_wait_begin(&q->dst.wait, qp, false, now);
	if (!q->dst.told_late)
		log_info("QP 0x%06x: %s from %s, PSN %u: no receive is posted; waits %u "
			 "us for one before it says RNR",
			 qp->qpn, segment_name(r->opcode), peer_text(qp, from),
			 q->dst.expected, (unsigned)(ns / 1000));
	q->dst.told_late = true;
	q->dst.odd |= DST_MISSED;
	qp_is_held(qp);
	qp_await_recv(qp, false);
	due_add(qp->core, qp); /* sets the timer */
}

uint64_t dst_run(struct shm_qp *q, uint64_t now)
{
	struct qp *qp = q->qp;

	qp_is_held(qp);
	if (!q->dst.wait.until)
		return NEVER;
	if (!qp_awaits_recv(qp) || (now >= q->dst.wait.until && qp_has_recv(qp))) {
		end_wait(q);
		shm_count(q, IB_TX_NAK);
		ask_again(q);
		return NEVER;
	}
	if (!recv_wait_is_over(&q->dst.wait, qp, false, now))
		return q->dst.wait.until;
	end_wait(q);
	say_rnr(q, now);
	return NEVER;
}

/* --- one segment ------------------------------------------------------------ */

/* As on other transports, where a READ is accepted before its memory is looked at. */
static const char *why_text(const struct target *t, unsigned kind, enum refusal why,
			    char buf[static TARGET_WHY_LEN])
{
	return kind == KIND_READ && why == REFUSED_MEMORY ? "the region's memory is gone"
							  : target_why(t, why, buf);
}

static void refuse_segment(struct shm_qp *q, const struct rec *r, uint32_t len,
			   enum refusal why, uint64_t now) REQUIRES(q->qp->lock)
{
	const unsigned kind = segment_kind(r->opcode);
	const enum nak_code nak = target_nak(why);
	struct qp *qp = q->qp;
	char text[TARGET_WHY_LEN];

	qp_is_held(qp);
	log_info("QP 0x%06x: %s from QP 0x%06x, PSN %u, %u bytes: %s", qp->qpn,
		 segment_name(r->opcode), qp->attr.dest_qp_num, q->dst.expected, len,
		 why_text(&q->dst.target, kind, why, text));
	target_fail_recv(qp, &q->dst.target, why, now);
	if (nak != NAK_CODES) {
		shm_count(q, IB_TX_NAK);
		tell_nak(q, AETH_NAK, nak);
	}
	qp_fail(qp, false, target_event(why), now);
	shm_settle(q);
}

/* A SEND or WRITE is in the middle of its segments. */
static uint8_t inside(unsigned kind)
{
	return kind == KIND_SEND ? DST_IN_SEND : kind == KIND_WRITE ? DST_IN_WRITE : 0;
}

static bool is_timed_swap(const struct rec *r)
{
	return r->flags & REC_TIMED && segment_kind(r->opcode) == KIND_CMP_SWAP;
}

/* For checks: who has posted the request that begins, and when. */
static void note_source(struct shm_qp *q, const struct rec *r, const uint8_t *payload,
			uint32_t len)
{
	struct target *t = &q->dst.target;

	t->source.known = true;
	t->source.pid = q->peer->reach.pid;
	t->source.posted = 0;
	if (!(r->flags & REC_TIMED))
		return;
	if (!is_timed_swap(r))
		t->source.posted = r->compare;
	else if (len == TIME_BYTES)
		memcpy(&t->source.posted, payload, TIME_BYTES);
}

static enum refusal place_send(struct shm_qp *q, const struct rec *r,
			       const uint8_t *payload, uint32_t len) REQUIRES(q->qp->lock)
{
	const bool last = r->opcode & SEGMENT_LAST;
	struct target *t = &q->dst.target;
	enum refusal why = ACCEPTED;
	struct qp *qp = q->qp;
	uint32_t skip = 0;

	qp_is_held(qp);
	if (r->opcode & SEGMENT_FIRST)
		why = target_begin_send(qp, t, payload, len, last, &skip);
	if (!why)
		why = target_fill_recv(qp, t, payload + skip, len - skip);
	if (!why && last && r->opcode & SEGMENT_INV)
		why = target_invalidate(qp, r->data);
	return why;
}

/* Does a receive tell of a WRITE whose rkey is refused (11.6.2)?  On a network that is
 * known of a message in one packet only; UC drops the message. */
static bool is_told_by_recv(const struct shm_qp *q, const struct rec *r)
{
	const unsigned whole = SEGMENT_ONLY | SEGMENT_IMM;

	return q->qp->reliable && (r->opcode & whole) == whole &&
	       r->len <= q->qp->path.mtu;
}

static enum refusal place_write(struct shm_qp *q, const struct rec *r,
				const uint8_t *payload, uint32_t len)
	REQUIRES(q->qp->lock)
{
	const bool last = r->opcode & SEGMENT_LAST;
	struct target *t = &q->dst.target;
	enum refusal why = ACCEPTED;
	struct qp *qp = q->qp;

	qp_is_held(qp);
	if (r->opcode & SEGMENT_FIRST)
		why = target_begin_write(qp, t, r->rkey, r->va, r->len);
	if (!why && (last ? len != t->write.left : len >= t->write.left))
		why = REFUSED_LENGTH;
	if (!why && last && r->opcode & SEGMENT_IMM)
		why = target_take_recv(qp, t);
	if (why == REFUSED_KEY && is_told_by_recv(q, r))
		(void)target_take_recv(qp, t);
	return why ? why : target_write(qp, t, payload, len);
}

/* --- what is answered --------------------------------------------------------- */

/* The source says how many of its READs and atomics have no answer yet.  It keeps the
 * places for the answers, so it alone is harmed if that is not true. */
static enum refusal check_depth(const struct shm_qp *q, const struct rec *r)
{
	return r->psn >> OUTSTANDING_AT > q->qp->attr.max_dest_rd_atomic
		       ? REFUSED_TOO_MANY
		       : ACCEPTED;
}

static enum refusal do_read(struct shm_qp *q, const struct rec *r, uint8_t *to)
	REQUIRES(q->qp->lock)
{
	enum refusal why;
	uint8_t *host;

	why = target_check(q->qp, &q->dst.target, r->rkey, r->va, r->len,
			   IBV_ACCESS_REMOTE_READ, &host);
	if (!why)
		why = check_depth(q, r);
	if (!why && r->len && guard_copy(to, host, r->len))
		why = REFUSED_MEMORY;
	return why;
}

static enum refusal do_atomic(struct shm_qp *q, const struct rec *r, void *to)
	REQUIRES(q->qp->lock)
{
	const bool cas = segment_kind(r->opcode) == KIND_CMP_SWAP;
	enum refusal why;
	uint64_t *at;

	why = target_check_atomic(q->qp, &q->dst.target, r->rkey, r->va, &at);
	if (!why)
		why = check_depth(q, r);
	return why ? why
		   : target_atomic(q->qp, r->rkey, at, cas ? &r->compare : NULL,
				   r->swap_add, to);
}

static enum refusal do_atomic_write(struct shm_qp *q, const struct rec *r,
				    const uint8_t *payload, uint32_t len)
	REQUIRES(q->qp->lock)
{
	enum refusal why;
	uint64_t *at;

	if (len != sizeof(*at) || r->len != sizeof(*at))
		return REFUSED_LENGTH;
	why = target_check_atomic_write(q->qp, &q->dst.target, r->rkey, r->va, &at);
	if (!why)
		why = check_depth(q, r);
	return why ? why : target_atomic_write(q->qp, r->rkey, at, payload);
}

static enum refusal do_flush(struct shm_qp *q, const struct rec *r) REQUIRES(q->qp->lock)
{
	enum refusal why =
		target_flush(q->qp, &q->dst.target, r->rkey, r->va, r->len, r->data);

	return why ? why : check_depth(q, r);
}

/* Executes a request and writes the answer, which the word then tells of. */
static enum refusal do_answered(struct shm_qp *q, const struct rec *r,
				const uint8_t *payload, uint32_t len)
	REQUIRES(q->qp->lock)
{
	const unsigned kind = segment_kind(r->opcode);
	uint8_t *to = NULL;

	if (kind == KIND_ATOMIC_WRITE)
		return do_atomic_write(q, r, payload, len);
	if (len != (is_timed_swap(r) ? TIME_BYTES : 0))
		return REFUSED_LENGTH;
	if (kind == KIND_FLUSH)
		return do_flush(q, r);
	if (r->len)
		to = reply_at(q->peer->replied, r->data, r->len);
	if (!to && (r->len || kind != KIND_READ))
		return REFUSED_LENGTH;
	return kind == KIND_READ ? do_read(q, r, to) : do_atomic(q, r, to);
}

static enum refusal place_segment(struct shm_qp *q, const struct rec *r,
				  const uint8_t *payload, uint32_t len)
	REQUIRES(q->qp->lock)
{
	const unsigned kind = segment_kind(r->opcode);
	const unsigned in = q->dst.odd & (DST_IN_SEND | DST_IN_WRITE);

	if (r->opcode & SEGMENT_FIRST ? in != 0 : in != inside(kind) || !in)
		return REFUSED_PLACE;
	if (__builtin_expect(checks_time, 0) && r->flags & REC_WIDE)
		note_source(q, r, payload, len);
	if (segment_is_answered(r->opcode))
		return do_answered(q, r, payload, len);
	return kind == KIND_SEND ? place_send(q, r, payload, len)
				 : place_write(q, r, payload, len);
}

static void end_message(struct shm_qp *q, const struct rec *r, uint64_t now)
	REQUIRES(q->qp->lock)
{
	const bool write = segment_kind(r->opcode) == KIND_WRITE;
	struct qp *qp = q->qp;
	struct target *t = &q->dst.target;
	struct cqe cqe = {
		.now = now,
		.opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		.byte_len = (uint32_t)(write ? t->write.len : t->filled),
		.src_qp = qp->attr.dest_qp_num,
		.sl = qp->path.sl,
	};

	if (r->opcode & (SEGMENT_IMM | SEGMENT_INV)) {
		cqe.flags = r->opcode & SEGMENT_IMM ? IBV_WC_WITH_IMM : IBV_WC_WITH_INV;
		cqe.imm = r->data;
	}
	qp_is_held(qp);
	target_complete(qp, t, &cqe, r->flags & REC_SE);
}

/* Does the message take a receive? */
static bool ends_in_recv(const struct rec *r)
{
	return r->opcode & SEGMENT_LAST &&
	       (segment_kind(r->opcode) == KIND_SEND || r->opcode & SEGMENT_IMM);
}

/* In RTR the first message raises an event. */
static void established(struct shm_qp *q)
{
	if (q->qp->state != IBV_QPS_RTR || q->dst.comm_est)
		return;
	q->dst.comm_est = true;
	qp_raise(q->qp, IBV_EVENT_COMM_EST);
}

/* Executes the segment that is expected. */
static void execute(struct shm_qp *q, const struct rec *r, const uint8_t *payload,
		    uint32_t len, uint64_t now) REQUIRES(q->qp->lock)
{
	enum refusal why = place_segment(q, r, payload, len);

	if (why == REFUSED_NO_RECV) {
		no_recv(q, r, now);
		return;
	}
	if (why) {
		refuse_segment(q, r, len, why, now);
		return;
	}
	end_wait(q);
	established(q);
	q->dst.odd = r->opcode & SEGMENT_LAST ? 0 : inside(segment_kind(r->opcode));
	q->dst.expected = psn_add(q->dst.expected, 1);
	if (ends_in_recv(r))
		end_message(q, r, now);
	shm_settle(q);
	if (q->qp->state != IBV_QPS_ERR) /* ERR: its CQ was overrun */
		tell_word(q, 0, r->flags & REC_ACKREQ);
}

/* Has the segment lain in the ring since before the QP was ready?  No more than a ring
 * could: positions run free, and pass `stale` again. */
static bool is_stale(const struct shm_qp *q)
{
	return q->dst.stale - q->peer->in.tail - 1 < RING_SLOTS;
}

/* Is the segment of the connection that this QP has now?  That begins with the first one
 * that is expected: before, a source which has not been reset yet may still send. */
static bool is_mine(const struct shm_qp *q)
{
	return !(q->dst.odd & DST_CLOSED) && (q->dst.life || !is_stale(q));
}

/* The source was reset alone: all that it sent before lies before in the ring.  If it
 * begins with the number that is expected it is heard, as on a wire. */
static void follow(struct shm_qp *q, uint8_t life) REQUIRES(q->qp->lock)
{
	q->dst.life = life;
	q->dst.odd &= (uint8_t)~DST_GAP; /* it was asked of another */
	set_says(q);
}

/* Is the log told of a message that is dropped?  A peer of UC is not held up: so the
 * first for each reason of a QP, and of all others one a second. */
static bool tells_drop(struct shm_qp *q, enum refusal why)
{
	static_assert(REFUSALS <= 16, "a bit each");
	const uint16_t bit = (uint16_t)(1u << why);

	if (log_level < LOG_INFO ||
	    (q->told_drop & bit && !log_allowed(&q->peer->l->said_dropped)))
		return false;
	q->told_drop |= bit;
	return true;
}

/* UC: a message that is not whole, or is refused, is dropped (9.8.2). An error of the
 * receive itself also fails the QP. */
static void drop_segment(struct shm_qp *q, const struct rec *r, uint32_t len,
			 enum refusal why, uint64_t now) REQUIRES(q->qp->lock)
{
	struct target *t = &q->dst.target;
	struct qp *qp = q->qp;
	char text[TARGET_WHY_LEN];

	qp_is_held(qp);
	shm_count(q, IB_RX_UC_DROPPED);
	/* Of REFUSED_PLACE, the first segment that was dropped has told. */
	if (why != REFUSED_PLACE && tells_drop(q, why))
		log_info("QP 0x%06x: %s from QP 0x%06x, PSN %u, %u bytes: %s; dropped",
			 qp->qpn, segment_name(r->opcode), qp->attr.dest_qp_num,
			 r->psn & PSN_MASK, len, target_why(t, why, text));
	if (why == REFUSED_RECV_SGE) {
		target_fail_recv(qp, t, why, now);
		qp_fail(qp, false, -1, now);
	}
	/* Other QPs use the SRQ as well. */
	if (qp->srq && qp->state != IBV_QPS_ERR)
		target_fail_recv(qp, t, REFUSED_PLACE, now);
}

/* Executes a segment of UC.  A message may begin with any number. */
static void take_unreliable(struct shm_qp *q, const struct rec *r, const uint8_t *payload,
			    uint32_t len, uint64_t now) REQUIRES(q->qp->lock)
{
	const bool first = r->opcode & SEGMENT_FIRST, last = r->opcode & SEGMENT_LAST;
	const unsigned kind = segment_kind(r->opcode);
	enum refusal why = REFUSED_PLACE;

	q->dst.life = r->life;
	if (first)
		q->dst.odd = DST_UNRELIABLE;
	if ((first || r->psn == q->dst.expected) && !segment_is_answered(r->opcode) &&
	    !(r->opcode & SEGMENT_INV))
		why = place_segment(q, r, payload, len);
	q->dst.expected = psn_add(r->psn, 1);
	q->dst.odd = DST_UNRELIABLE | (why || last ? 0 : inside(kind));
	if (why) {
		drop_segment(q, r, len, why, now);
		return;
	}
	established(q);
	if (ends_in_recv(r))
		end_message(q, r, now);
}

/* --- the common case: SENDs of one segment without immediate data ------------ */

/* Is it that, expected by a QP in RTS? */
static inline bool is_plain(const struct shm_qp *q, const struct rec *r)
	REQUIRES(q->qp->lock)
{
	return r->opcode == SEGMENT_ONLY && r->psn == q->dst.expected &&
	       r->life == q->dst.life && q->qp->state == IBV_QPS_RTS && !q->dst.odd;
}

static inline void end_plain(struct shm_qp *q, const struct rec *r)
{
	q->dst.expected = psn_add(q->dst.expected, 1);
	if (__builtin_expect(q->qp->state != IBV_QPS_ERR, 1)) /* its CQ was overrun */
		tell_word(q, 0, r->flags & REC_ACKREQ);
}

/* Into the QP's next receive, which has one SGE. */
static inline bool take_plain(struct shm_qp *q, const struct rec *r,
			      const uint8_t *payload, uint32_t len, uint64_t now)
	REQUIRES(q->qp->lock)
{
	struct qp *qp = q->qp;

	qp_is_held(qp);
	if (!is_plain(q, r) ||
	    !target_take_first(qp, &q->dst.into, payload, len, r->flags & REC_SE, now))
		return false;
	end_plain(q, r);
	return true;
}

/* Into such a receive of its SRQ. */
static inline bool take_shared(struct shm_qp *q, const struct rec *r,
			       const uint8_t *payload, uint32_t len, uint64_t now)
	REQUIRES(q->qp->lock)
{
	struct qp *qp = q->qp;

	qp_is_held(qp);
	if (!qp->srq || !is_plain(q, r) ||
	    !target_take_shared(qp, &q->dst.target, &q->dst.into, payload, len,
				r->flags & REC_SE, now))
		return false;
	end_plain(q, r);
	return true;
}

/* --- all cases ------------------------------------------------------------------ */

__attribute__((noinline)) static void take_rarely(struct shm_qp *q, const struct rec *r,
						  const uint8_t *payload, uint32_t len,
						  uint64_t now) REQUIRES(q->qp->lock)
{
	bool strange;
	int32_t ahead;

	if (take_shared(q, r, payload, len, now))
		return;
	if (segment_kind(r->opcode) == KIND_WORD) {
		if (q->answer)
			src_hear(q, (uint64_t)r->data << 32 | r->psn, now);
		return;
	}
	if (!qp_receives(q->qp)) {
		shm_count(q, IB_RX_STATE);
		hint_dropped(q->peer, r, NOT_READY, now);
		return;
	}
	if (!is_mine(q))
		return;
	if (segment_kind(r->opcode) != KIND_SEND)
		q->peer->l->one_sided = true;
	if (q->dst.odd & DST_UNRELIABLE) {
		take_unreliable(q, r, payload, len, now);
		return;
	}
	if (q->dst.life && r->life != q->dst.life)
		follow(q, r->life);
	ahead = psn_diff(r->psn & PSN_MASK, q->dst.expected);
	if (ahead == 0) {
		q->dst.life = r->life;
		set_says(q);
		execute(q, r, payload, len, now);
		return;
	}
	shm_count(q, ahead < 0 ? IB_RX_DUPLICATE : IB_RX_OUT_OF_ORDER);
	strange = !q->dst.life && now - q->dst.astray.last > ASTRAY_NS;
	if (!q->dst.life)
		hint_number(q, r, now);
	if (strange || (ahead > 0 && !(q->dst.odd & DST_GAP))) {
		q->dst.odd |= DST_GAP;
		shm_count(q, IB_TX_NAK);
		ask_again(q);
	}
}

static inline bool is_from_peer(const struct shm_qp *q, const struct peer *p,
				const struct rec *r)
{
	return q->peer == p && r->src == q->dest && r->route == q->route_in;
}

/* No QP of shm's has the number: it may have had, or will have. */
__attribute__((noinline)) static void drop_stray(struct peer *p, const struct rec *r,
						 const struct qp *qp, uint64_t now)
{
	if (segment_kind(r->opcode) == KIND_WORD)
		return;
	hint_dropped(p, r,
		     qp ? NOT_READY
			: "this process has no such QP (destroyed already? or does the "
			  "program give its peer another number?)",
		     now);
}

/* The segment of a QP that is not the peer of the one that it is for. */
__attribute__((noinline)) static void drop_strange(struct shm_qp *q, struct peer *p,
						   const struct rec *r, uint64_t now)
{
	if (segment_kind(r->opcode) == KIND_WORD)
		return;
	shm_count(q, q->peer ? IB_RX_NO_ADDR : IB_RX_STATE);
	hint_dropped(p, r,
		     q->peer ? "the QP is connected to another QP, address or partition"
			     : NOT_READY,
		     now);
}

static inline void take(struct peer *p, const struct rec *r, const uint8_t *payload,
			uint32_t len, uint64_t now)
{
	struct core *core = p->l->core;
	struct shm_qp *q;
	struct qp *qp;

	turn_is_held(core);
	qp = qp_find(core, r->dst);
	if (__builtin_expect(!qp || qp->transport != &shm_transport, 0)) {
		drop_stray(p, r, qp, now);
		return;
	}
	if (!shm_lock(qp))
		return;
	q = shm_qp(qp);
	qp_is_held(q->qp);
	if (__builtin_expect(is_from_peer(q, p, r), 1)) {
		qp->tp.traffic.got++;
		qp->tp.traffic.got_bytes += len;
		/* A program that receives an answer has its own SEND complete. */
		src_look(q, now);
		if (!take_plain(q, r, payload, len, now))
			take_rarely(q, r, payload, len, now);
		shm_settle(q);
	} else {
		drop_strange(q, p, r, now);
	}
	lock_give(&qp->lock);
}

/* Takes in the second header of a segment that should have one.  Returns false if no
 * urnic writes such a record. */
static bool read_wide(struct rec *r, const uint8_t **payload, uint32_t *len)
{
	enum { MORE = REC_HEAD_WIDE - REC_HEAD };

	if (segment_kind(r->opcode) >= KINDS ||
	    !(r->flags & REC_WIDE) == segment_is_wide(r->opcode))
		return false;
	if (!(r->flags & REC_WIDE))
		return true;
	if (*len < MORE)
		return false;
	ring_more(r, *payload);
	*payload += MORE;
	*len -= MORE;
	return true;
}

bool dst_take(struct peer *p, struct rec *r, const uint8_t *payload, uint32_t len,
	      uint64_t now)
{
	if (__builtin_expect(segment_kind(r->opcode) | (r->flags & REC_WIDE), 0) &&
	    !read_wide(r, &payload, &len))
		return false;
	take(p, r, payload, len, now);
	return true;
}
