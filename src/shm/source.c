/* SPDX-License-Identifier: BSD-2-Clause */
/* source.c - what a QP learns of its own SENDs from the peer's word, its timers, and how
 * its requests end (IBTA vol. 1, 9.7.6, 9.9.2). */
#include <string.h>

#include "shm/shm_qp.h"
#include "sys/clock.h"
#include "verbs/due.h"
#include "verbs/round.h"
#include "verbs/timeout.h"

enum {
	AGAINS = 1000,
	LATE_NS = 4000000,   /* this process did not run when the timer expired */
	NEWS_NS = 500000000, /* docs/dev/peers.md, "Death" */
	NEWS_LOOK_NS = 1000000,
	WORD_LOOK_NS = 1000000, /* see is_untold() */
	PROBE_NS = 250000000,	/* see probe() */
};

/* Of this process, 1 to 255: what another QP of the same number has heard, or is told, is
 * not mistaken for this one's.  Under the turn. */
static uint8_t next_life(void)
{
	static uint8_t lives;

	if (++lives == 0)
		lives = 1;
	return lives;
}

void src_reset(struct shm_qp *q, uint32_t first)
{
	struct qp *qp = q->qp;

	asks_drop(q);
	if (q->src.listed && q->peer) {
		peer_lock(q->peer);
		list_del(&q->ack);
		peer_unlock(q->peer);
	}
	memset(&q->src, 0, sizeof(q->src));
	q->src.listed = !qp->reliable;
	send_reset(qp, &q->src.s, &q->src.at, first);
	q->src.way.of = q->src.at.cur - 1;
	q->head.life = next_life();
	q->src.says = word_of(qp->qpn, q->head.life);
	q->src.heard = HEARD_NONE;
	q->src.timeout_at = q->src.probe_at = NEVER;
}

void src_open(struct shm_qp *q)
{
	const uint64_t word = q->answer ? atomic_load(q->answer) : 0;

	/* What the target asked for before there was anything to send */
	if (word && (word ^ word_of(q->qp->qpn, 0)) >> WORD_LIFE_AT == 0)
		q->src.heard = (uint32_t)(word >> WORD_COUNT_AT) & COUNT_MASK;
}

void src_stop(struct shm_qp *q)
{
	send_stop(q->qp, &q->src.s, &q->src.at);
	asks_drop(q);
	memset(&q->src.way, 0, sizeof(q->src.way));
	q->src.timeout_at = NEVER;
	q->src.timed = false;
}

static bool sends(const struct shm_qp *q)
{
	return q->qp->state == IBV_QPS_RTS || q->qp->state == IBV_QPS_SQD;
}

static void fail(struct shm_qp *q, enum ibv_wc_status status, enum verr verr,
		 uint64_t now) REQUIRES(q->qp->lock)
{
	struct qp *qp = q->qp;

	qp_is_held(qp);
	send_end(qp, &q->src.s, &q->src.at, status, verr, now);
	qp_fail(qp, true, -1, now);
	src_stop(q);
	shm_settle(q);
}

static void tell_error(struct shm_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	const struct send_source *s = &q->src.s;

	if (send_fails(q->qp, s, &q->src.at))
		fail(q, s->fail_status, s->fail_verr, now);
}

void src_error(struct shm_qp *q, enum ibv_wc_status status, enum verr verr, uint64_t now)
{
	send_refuse(&q->src.s, status, verr);
	tell_error(q, now);
}

/* --- forward, and back ------------------------------------------------------ */

/* All segments before `to` were executed, and answers to them taken; asks: there were. */
__attribute__((always_inline)) static inline void advance_to(struct shm_qp *q,
							     uint32_t to, bool asks,
							     uint64_t now)
	REQUIRES(q->qp->lock)
{
	struct send_source *s = &q->src.s;
	const uint32_t start = s->una;
	struct qp *qp = q->qp;
	struct send_part part;

	qp_is_held(qp);
	while (send_part(qp, s, &q->src.at, to, &part))
		if (!send_took(qp, s, &part, now))
			return; /* its CQ was overrun */
	if (s->una == start)
		return;
	if (send_caught_up(qp, s, &q->src.at, start) && asks)
		asks_rewind(q);
	send_refill(qp, s);
	q->src.agains = 0;
}

__attribute__((noinline)) static void advance_with_answers(struct shm_qp *q, uint32_t to,
							   uint64_t now)
	REQUIRES(q->qp->lock)
{
	int rc;

	to = asks_hear(q, to, &rc);
	advance_to(q, to, true, now);
	if (rc && sends(q))
		fail(q, IBV_WC_LOC_PROT_ERR, verr_of(rc), now);
}

/* All segments before `to` were executed. */
__attribute__((always_inline)) static inline void advance(struct shm_qp *q, uint32_t to,
							  uint64_t now)
	REQUIRES(q->qp->lock)
{
	if (__builtin_expect(q->src.asks.tail != q->src.asks.head, 0))
		advance_with_answers(q, to, now);
	else
		advance_to(q, to, false, now);
}

/* A request that is answered is completed under the turn only. */
bool src_is_idle(struct shm_qp *q)
{
	const struct qp *qp = q->qp;
	const struct send_cursor *at = &q->src.at;
	uint64_t word;

	if (!src_is_waiting(q))
		return at->cur == qp->sq.tail;
	if (at->cur - qp->sq.tail != 1 || at->psn != at->max_psn ||
	    q->src.asks.tail != q->src.asks.head)
		return false;
	word = atomic_load_explicit(q->answer, memory_order_acquire);
	if ((word ^ q->src.says) & WORD_PLAIN || ((uint32_t)word & PSN_MASK) != at->psn)
		return false;
	advance_to(q, at->psn, false, clock_ns());
	return qp->state == IBV_QPS_RTS && at->cur == qp->sq.tail;
}

/* Will the peer execute nothing more of what was sent?  It says what it has executed
 * before it says what it has read, and what a QP that has left executed in the ring. */
static bool is_refused(struct shm_qp *q)
{
	struct ring_out *out = &q->peer->out;
	uint64_t word;
	bool read;

	/* A position that is impossible is for the timers to find (is_read()): this may
	 * be a brief turn. */
	peer_lock(q->peer);
	read = ring_look(out) && (int32_t)(q->src.written - out->tail) <= 0;
	peer_unlock(q->peer);
	if (!read)
		return false;
	word = atomic_load_explicit(q->answer, memory_order_acquire);
	return (word ^ q->src.says) >> WORD_LIFE_AT
		       ? ring_empty(&q->peer->in)
		       : psn_off((uint32_t)word & PSN_MASK, q->src.s.una) == 0;
}

/* Sends again from una on.  Meanwhile others may have the places for answers. */
static void go_back(struct shm_qp *q)
{
	qp_count(q->qp, IB_TX_RETRANSMIT, psn_off(q->src.at.psn, q->src.s.una));
	(void)send_rewind(q->qp, &q->src.s, &q->src.at, q->src.s.una);
	if (q->src.asks.tail != q->src.asks.head && is_refused(q))
		asks_drop(q);
	asks_rewind(q);
	due_add(q->qp->core, q->qp);
}

static bool retry(struct shm_qp *q, enum verr verr, uint64_t now) REQUIRES(q->qp->lock)
{
	if (send_retry(&q->src.s))
		return true;
	fail(q, IBV_WC_RETRY_EXC_ERR, verr, now);
	return false;
}

static void hear_rnr(struct shm_qp *q, unsigned timer, uint64_t now) REQUIRES(q->qp->lock)
{
	shm_count(q, IB_RX_RNR);
	q->src.silent.n = 0;
	hint_rnr(q, now);
	/* What it is about was sent twice, and the first RNR NAK has been heard. */
	if (q->src.at.psn == q->src.s.una)
		return;
	if (!send_rnr_retry(q->qp, &q->src.s)) {
		fail(q, IBV_WC_RNR_RETRY_EXC_ERR, VERR_RNR_RETRIES, now);
		return;
	}
	go_back(q);
	q->src.s.rnr_until = now + rnr_timer_ns(timer);
}

static void hear_nak(struct shm_qp *q, unsigned code, uint64_t now) REQUIRES(q->qp->lock)
{
	shm_count(q, IB_RX_NAK);
	q->src.silent.n = 0;
	switch ((enum nak_code)code) {
	case NAK_PSN_SEQUENCE:
		if (q->src.agains < AGAINS)
			q->src.agains++;
		else if (!retry(q, VERR_SEQUENCE_RETRIES, now))
			return;
		go_back(q);
		return;
	case NAK_INVALID_REQUEST:
		fail(q, IBV_WC_REM_INV_REQ_ERR, VERR_REMOTE_INVALID, now);
		return;
	case NAK_REMOTE_ACCESS:
		fail(q, IBV_WC_REM_ACCESS_ERR, VERR_REMOTE_ACCESS, now);
		return;
	case NAK_REMOTE_OPERATIONAL:
		fail(q, IBV_WC_REM_OP_ERR, VERR_REMOTE_OPERATION, now);
		return;
	case NAK_INVALID_RD_REQUEST:
	case NAK_CODES:
		return;
	}
}

static void hear_nak_or_rnr(struct shm_qp *q, uint64_t word, uint64_t now)
	REQUIRES(q->qp->lock)
{
	const uint8_t syndrome = (uint8_t)(word >> WORD_SYNDROME_AT);
	const uint32_t count = (uint32_t)(word >> WORD_COUNT_AT) & COUNT_MASK;

	if (count == q->src.heard)
		return;
	q->src.heard = count;
	if (!sends(q) || !src_is_waiting(q))
		return;
	if (aeth_type(syndrome) == AETH_RNR_NAK)
		hear_rnr(q, aeth_value(syndrome), now);
	else if (aeth_type(syndrome) == AETH_NAK)
		hear_nak(q, aeth_value(syndrome), now);
}

/* A word that is no plain ACK of this connection, or what is left after one. */
__attribute__((noinline)) static void hear_rarely(struct shm_qp *q, uint64_t word,
						  uint32_t n, uint64_t now)
	REQUIRES(q->qp->lock)
{
	const uint64_t odd = (word ^ q->src.says) >> WORD_LIFE_AT;
	const bool first = !((word >> WORD_LIFE_AT) & 0xff);

	/* A target that has heard nothing yet may ask for all, and say nothing else. */
	if (odd && !(first && !(odd >> (WORD_INDEX_AT - WORD_LIFE_AT)) && !n))
		return;
	if ((uint8_t)(word >> WORD_SYNDROME_AT) != 0)
		hear_nak_or_rnr(q, word, now);
	if (sends(q))
		tell_error(q, now);
	if (n && (q->src.at.cur != q->qp->sq.head || q->qp->state != IBV_QPS_RTS))
		due_add(q->qp->core, q->qp);
}

/* See src_hear().  n: numbers that the word says were executed. */
__attribute__((noinline)) static void hear_odd(struct shm_qp *q, uint64_t word,
					       uint32_t n, uint64_t now)
	REQUIRES(q->qp->lock)
{
	const bool mine = !((word ^ q->src.says) >> WORD_LIFE_AT);

	if (n && mine) {
		if (!sends(q))
			return;
		advance(q, (uint32_t)word & PSN_MASK, now);
	}
	hear_rarely(q, word, n, now);
}

/* A number that is not outstanding: the peer expects another one, and is not silent. */
__attribute__((noinline)) static void hear_strange(struct shm_qp *q, uint64_t word)
{
	const uint32_t count = (uint32_t)(word >> WORD_COUNT_AT) & COUNT_MASK;

	if (word && !((word ^ word_of(q->qp->qpn, 0)) >> WORD_LIFE_AT) &&
	    count != q->src.heard) {
		q->src.heard = count;
		q->src.silent.n = 0;
	}
}

/* See src_hear(). */
__attribute__((always_inline)) static inline void hear(struct shm_qp *q, uint64_t word,
						       uint64_t now) REQUIRES(q->qp->lock)
{
	const struct qp *qp = q->qp;
	const uint32_t to = (uint32_t)word & PSN_MASK, una = q->src.s.una;
	const uint32_t n = psn_off(to, una);

	if (__builtin_expect(n > psn_off(q->src.at.max_psn, una), 0)) {
		hear_strange(q, word);
		return;
	}
	if (__builtin_expect((word ^ q->src.says) & WORD_PLAIN ||
				     qp->state != IBV_QPS_RTS,
			     0)) {
		hear_odd(q, word, n, now);
		return;
	}
	if (n)
		advance(q, to, now);
	if (__builtin_expect(q->src.at.cur != qp->sq.head || qp->state != IBV_QPS_RTS, 0))
		hear_rarely(q, word, n, now);
}

void src_hear(struct shm_qp *q, uint64_t word, uint64_t now)
{
	hear(q, word, now);
}

/* --- news ------------------------------------------------------------------- */

static inline void told(struct peer *p, uint64_t word, uint64_t now)
{
	struct core *core = p->l->core;
	struct qp *qp = numbers_at(&core->qps, (uint32_t)(word >> WORD_INDEX_AT));
	struct shm_qp *q;

	if (!qp || qp->transport != &shm_transport)
		return;
	q = shm_qp(qp);
	if (q->peer != p || !q->answer || !shm_lock(qp))
		return;
	qp_is_held(q->qp);
	/* A later NAK may have been heard, so that this one would be heard again. */
	if ((uint8_t)(word >> WORD_SYNDROME_AT))
		word = atomic_load_explicit(q->answer, memory_order_acquire);
	hear(q, word, now);
	shm_settle(q);
	lock_give(&qp->lock);
}

static struct list *next_of(struct peer *p, struct list *n)
{
	struct list *next;

	brief_take(&p->writing);
	next = n->next;
	brief_give(&p->writing);
	return next;
}

/* A QP with nothing outstanding leaves the list here and nowhere else, so that a stream
 * does not enter and leave it with each message. */
static void hear_qp(struct shm_qp *q, uint64_t now)
{
	struct qp *qp = q->qp;

	if (!shm_lock(qp))
		return;
	qp_is_held(q->qp);
	src_look(q, now);
	shm_settle(q);
	brief_take(&q->peer->writing);
	if (!src_is_waiting(q)) {
		list_del(&q->ack);
		q->src.listed = false;
	}
	brief_give(&q->peer->writing);
	lock_give(&qp->lock);
}

/* Posting threads add to the list's end meanwhile; only the turn's holder removes. */
void src_news(struct peer *p, uint64_t now)
{
	struct list *head = &p->unanswered, *n, *next;

	for (n = next_of(p, head); n != head; n = next) {
		next = next_of(p, n);
		hear_qp(container_of(n, struct shm_qp, ack), now);
	}
}

void src_words(struct peer *p, uint32_t count, uint64_t now)
{
	uint64_t word[ANSWERS];
	uint32_t n, i = 0;
	const bool whole = peer_words(p, count, word, &n);

	turn_is_held(p->l->core);
	p->heard = count;
	if (__builtin_expect(!whole, 0)) {
		src_news(p, now);
		return;
	}
	do {
		told(p, word[i], now);
	} while (++i < n);
}

/* --- timers ----------------------------------------------------------------- */

static void set_timer(struct shm_qp *q, uint64_t now)
{
	const uint64_t ns = ack_timeout_ns(q->qp);

	q->src.timeout_at = ns ? went_out(&q->qp->core->round, now) + ns : NEVER;
	q->src.mark = q->src.s.una;
	q->src.seen = ring_mark(&q->peer->out.tail);
}

/* Has the peer read all that this QP has written? */
static bool is_read(struct shm_qp *q)
{
	struct peer *p = q->peer;

	return p->state == PEER_UP && peer_look(p) &&
	       (int32_t)(q->src.written - ring_mark(&p->out.tail)) <= 0;
}

/* Has the peer read anything since the timer was set?  Of a QP that has sent nothing, and
 * waits for room or places, it is not silent either if it has read all. */
static bool peer_reads_on(struct shm_qp *q)
{
	const struct peer *p = q->peer;
	const uint32_t read = ring_mark(&p->out.tail);

	return p->state == PEER_UP &&
	       (read != q->src.seen ||
		(!src_is_waiting(q) && read == ring_mark(&p->out.head)));
}

/* What lies in the ring is not lost: it is sent again only if the peer has read it. */
static void timed_out(struct shm_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	const bool read = is_read(q) && src_is_waiting(q),
		   late = now - q->src.timeout_at > LATE_NS;

	if (q->src.mark != q->src.s.una || (!read && peer_reads_on(q)) ||
	    (late && !q->src.excused)) {
		q->src.excused = late && q->src.mark == q->src.s.una;
		set_timer(q, now);
		return;
	}
	q->src.excused = false;
	shm_count(q, IB_TX_TIMEOUT);
	if (!retry(q, VERR_TIMEOUT, now))
		return;
	if (read) {
		hint_silent(q, now);
		go_back(q);
	}
	set_timer(q, now);
}

static uint64_t run_timer(struct shm_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	/* In SQD what has not begun waits for RTS. */
	const bool waits = src_is_waiting(q) || (q->qp->state == IBV_QPS_RTS &&
						 q->src.at.cur != q->qp->sq.head);

	if (!waits && (q->src.timeout_at == NEVER || now >= q->src.timeout_at)) {
		q->src.timed = false;
		q->src.timeout_at = NEVER;
		return NEVER;
	}
	q->src.timed = true;
	if (q->src.timeout_at == NEVER)
		set_timer(q, now);
	else if (silent_until(&q->qp->core->round, q->src.timeout_at, now))
		timed_out(q, now);
	return q->src.timeout_at;
}

/* The peer's process has ended: no answer will ever come. */
static uint64_t bereft(struct shm_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct qp *qp = q->qp;
	struct peer *p = q->peer;

	if (!p->dead_since)
		p->dead_since = now;
	if (qp->sq.tail == qp->sq.head)
		return NEVER;
	if ((!cq_empty(qp->send_cq) || !cq_empty(qp->recv_cq)) &&
	    now - p->dead_since < NEWS_NS)
		return now + NEWS_LOOK_NS;
	fail(q, IBV_WC_RETRY_EXC_ERR, VERR_PEER_ENDED, now);
	return NEVER;
}

/* UC: all that was sent counts as executed. */
void src_sent(struct shm_qp *q, uint64_t now)
{
	if (!sends(q))
		return;
	advance_to(q, q->src.at.psn, false, now);
	if (sends(q))
		tell_error(q, now);
	shm_settle(q);
}

/* A UC QP waits STALL_NS for room; then its output() finds out whether the peer reads. */
static uint64_t run_unreliable(struct shm_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	struct qp *qp = q->qp;

	qp_is_held(qp);
	q->src.timed = false;
	src_sent(q, now);
	if (!sends(q))
		return NEVER;
	if (send_is_drained(qp, &q->src.at, false))
		qp_drained(qp);
	if (!line_has(&q->lists)) {
		q->src.timeout_at = NEVER;
		return NEVER;
	}
	if (q->src.timeout_at == NEVER)
		q->src.timeout_at = went_out(&qp->core->round, now) + STALL_NS;
	if (!silent_until(&qp->core->round, q->src.timeout_at, now))
		return q->src.timeout_at;
	q->src.timeout_at = NEVER;
	line_leave(q->peer, &q->lists);
	due_add(qp->core, qp);
	return NEVER;
}

/* Does anything wait for the end of requests that nobody tells of, since they have not
 * asked for an ACK? */
static bool is_untold(const struct shm_qp *q)
{
	const struct send_cursor *at = &q->src.at;
	struct qp *qp = q->qp;

	if (!src_is_waiting(q))
		return false;
	return q->src.s.failed || qp->sqd.draining || q->src.way.waits ||
	       (at->cur != qp->sq.head && !send_has_begun(at) &&
		wqe_is_local(sq_at(&qp->sq, at->cur)));
}

/* The peer has dropped what was sent, and the QP's timeout may be long, or never come:
 * it is sent again from time to time, at no cost, and others may have the places for its
 * answers. */
static uint64_t probe(struct shm_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	const bool due = now >= q->src.probe_at;

	if (!src_is_waiting(q)) {
		q->src.probe_at = NEVER;
		return NEVER;
	}
	if (due && q->src.at.psn != q->src.s.una && is_refused(q)) {
		hint_silent(q, now);
		go_back(q);
	}
	if (due || q->src.probe_at == NEVER)
		q->src.probe_at = now + PROBE_NS;
	return q->src.probe_at;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t src_run(struct shm_qp *q, uint64_t now)
{
	struct qp *qp = q->qp;
	uint64_t next;

	qp_is_held(qp);
	if (!q->peer || !sends(q))
		return NEVER;
	if (!qp->reliable)
		return run_unreliable(q, now);
	src_look(q, now);
	if (!sends(q))
		return NEVER;
	if (send_is_drained(qp, &q->src.at, false))
		qp_drained(qp);
	if (q->peer->state == PEER_DEAD)
		return bereft(q, now);
	if (q->src.s.rnr_until) {
		if (now < q->src.s.rnr_until)
			return q->src.s.rnr_until;
		q->src.s.rnr_until = 0;
		due_add(qp->core, qp);
		q->src.timeout_at = NEVER;
	}
	next = run_timer(q, now);
	if (sends(q))
		next = sooner(next, probe(q, now));
	if (!is_untold(q) && !ask_is_starved(q))
		return next;
	/* Nobody tells either when the peer has read what a place waits for. */
	return sooner(next, now + WORD_LOOK_NS);
}
