/* SPDX-License-Identifier: BSD-2-Clause */
/* shm_qp.h - what the files of shm/ share: the state of a QP, segments and words
 * (docs/dev/shm.md). */
#ifndef SHM_SHM_QP_H
#define SHM_SHM_QP_H

#include <stdbool.h>
#include <stdint.h>

#include "direct/direct.h"
#include "shm/peer.h"
#include "shm/quicker.h"
#include "shm/shm.h"
#include "verbs/await.h"
#include "verbs/core.h"
#include "verbs/counters.h"
#include "verbs/hang.h"
#include "verbs/mr.h"
#include "verbs/numbers.h"
#include "verbs/psn.h"
#include "verbs/qp.h"
#include "verbs/source.h"
#include "verbs/target_state.h"
#include "verbs/transport.h"
#include "wire/aeth.h"
#include "wire/qpn.h"

/* rec.opcode of a segment: bits, and the kind of message. */
enum segment {
	SEGMENT_FIRST = 1 << 0,
	SEGMENT_LAST = 1 << 1,
	SEGMENT_IMM = 1 << 2, /* of the last: rec.data is immediate data */
	SEGMENT_INV = 1 << 3, /* of the last: rec.data is the rkey to invalidate */
	SEGMENT_ONLY = SEGMENT_FIRST | SEGMENT_LAST,
	SEGMENT_KIND_AT = 4,
};
enum segment_kind {
	KIND_SEND,
	KIND_WRITE,
	KIND_READ, /* this and the following are answered: answer.c */
	KIND_CMP_SWAP,
	KIND_FETCH_ADD,
	KIND_ATOMIC_WRITE,
	KIND_FLUSH,
	KIND_WORD, /* no segment: the word of a QP that leaves */
	KINDS
};

static inline unsigned segment_kind(unsigned op)
{
	return op >> SEGMENT_KIND_AT;
}

/* Is it a READ, or another request that gets more than an ACK?  In their records
 * (shm/rec.h) psn has in its upper 8 bits how many of them are outstanding, this one
 * included; data names the place for the answer (shm/reply.h), or is a FETH. */
static inline bool segment_is_answered(unsigned op)
{
	return segment_kind(op) >= KIND_READ && segment_kind(op) < KIND_WORD;
}
enum { OUTSTANDING_AT = 24 };

/* Has the record the second header? */
static inline bool segment_is_wide(unsigned op)
{
	return segment_is_answered(op) ||
	       (segment_kind(op) == KIND_WRITE && op & SEGMENT_FIRST);
}

static inline uint32_t segment_head(unsigned op)
{
	return segment_is_wide(op) ? REC_HEAD_WIDE : REC_HEAD;
}

/* The word of a QP as target: what it says to its source.
 *
 *	index of the source's QP (14) | life (8) | count (10) | syndrome (8) | number (24)
 *
 * number: all segments before it were executed.  syndrome: as in an AETH; a sequence NAK
 * asks for all segments from number on.  count: of the words that are no ACK, so that the
 * same NAK said twice is heard twice.  life: the source's, which tells connections of one
 * QP number apart; 0 in the word of a target that has heard none yet. */
enum { WORD_SYNDROME_AT = 24, WORD_COUNT_AT = 32, WORD_LIFE_AT = 42, WORD_INDEX_AT = 50 };
enum { COUNT_MASK = 0x3ff, HEARD_NONE = COUNT_MASK + 1 };
/* In a plain ACK of a connection these bits are as in src.says. */
#define WORD_PLAIN (~0ull << WORD_LIFE_AT | 0xffull << WORD_SYNDROME_AT)

/* Why the next segment is not just the begin of a message. */
enum dst_odd {
	DST_CLOSED = 1 << 0,	 /* the word is not the QP's to write */
	DST_IN_SEND = 1 << 1,	 /* the expected segment continues a SEND, */
	DST_IN_WRITE = 1 << 2,	 /* a WRITE */
	DST_MISSED = 1 << 3,	 /* the expected segment has found no receive */
	DST_GAP = 1 << 4,	 /* what is missing was asked for */
	DST_UNRELIABLE = 1 << 5, /* the QP is UC, in all states */
};

/* A segment that asks for an answer. */
struct ask {
	uint32_t number, index; /* of the request in the send queue */
	uint32_t len;		/* of the answer; 0: there is no place */
	uint16_t place;
	bool last; /* of its request */
};
enum { ASKS = 16 }; /* a power of 2 */

/* Which way a WRITE, READ or atomic goes (way.c). */
enum request_way {
	WAY_RING,
	WAY_DIRECT, /* by the peer's memory */
	WAY_WAIT,   /* the same, once all before it are executed */
	WAY_NONE,   /* the QP has just failed */
};

struct shm_qp {
	struct qp *qp;
	struct peer *peer;	 /* where the QP leads to; or NULL */
	struct peer_qp lists;	 /* the peer's, that it is in */
	struct list ack;	 /* in peer->unanswered, with the ring's lock */
	struct rec head;	 /* of segments that leave: what is the same in all */
	uint32_t dest, route_in; /* the peer's QPN; the route of what comes in */
	/* This QP's word, and the peer's for it; NULL: the peer is not up, or UC */
	_Atomic uint64_t *word;
	const _Atomic uint64_t *answer;
	struct {
		struct send_source s;
		struct send_cursor at;
		uint64_t says;	/* the word for this connection, without its lower 42 bits
				 */
		uint32_t heard; /* count of the last NAK that was heard, or HEARD_NONE */
		unsigned agains; /* times that the peer has asked again at no cost */
		bool listed;	 /* in peer->unanswered; UC: set, and never is */
		/* A timer runs, or run() is about to set it. */
		bool timed;
		bool excused;	     /* the timeout was given once more */
		uint64_t timeout_at; /* ns; NEVER: not set */
		uint32_t mark;	     /* una when it was set, and the ring's state: */
		uint32_t seen;
		uint32_t written;  /* the ring's head behind the last segment */
		uint64_t probe_at; /* ns; NEVER: not set */
		struct mr_found from;
		struct hang rnr, silent; /* hint.c */
		/* [tail, head), in the order of numbers: sent, and the answer not taken.
		 * From `next` on they are to be sent again. */
		struct {
			uint32_t tail, next, head;
			struct ask v[ASKS];
		} asks;
		struct {
			uint32_t of; /* index of the request whose way is `is` */
			enum request_way is;
			uint32_t part;	/* bytes of the request at cur that were copied */
			bool waits;	/* the request at cur: WAY_WAIT */
			uint8_t behind; /* see should_wait() */
			/* What gathers behind one that waits is no list; until the send
			 * queue has one request again. */
			bool one_by_one;
			struct quicker quicker[2]; /* WRITEs, READs */
			uint32_t uses, key, told;
		} way;
	} src;
	bool reaches;		/* the peer's memory may be reached */
	bool shown;		/* in the export table */
	struct allowed allowed; /* copies by threads that post */
	struct list starved;	/* in peer->starved */
	uint16_t told_drop;	/* see tells_drop(): 1 << enum refusal */
	struct {
		uint32_t expected;
		uint64_t says; /* the word for the peer's QP, without its lower 32 bits */
		uint32_t count;
		uint8_t life; /* the source's; 0: not known yet */
		bool comm_est;
		uint8_t odd; /* enum dst_odd; 0: the next message is expected */
		/* Segments before this place of the ring are of a former connection. */
		uint32_t stale;
		struct recv_wait wait;
		struct target target;
		struct mr_found into;
		struct hang no_recv, astray; /* hint.c */
		bool told_late;
	} dst;
};

static inline struct shm_qp *shm_qp(const struct qp *qp)
{
	return qp->tp.state;
}

static inline void shm_count(const struct shm_qp *q, enum ib_counter c)
{
	qp_count(q->qp, c, 1);
}

/* Takes the lock for input.  In exit() QPs that are locked are passed over. */
static inline NO_TSA bool shm_lock(struct qp *qp) TRY_ACQUIRES(true, qp->lock)
{
	if (__builtin_expect(qp->core->leaving, 0))
		return lock_try(&qp->lock);
	lock_take(&qp->lock);
	return true;
}

static inline uint64_t word_of(uint32_t qpn, uint8_t life)
{
	return (uint64_t)qpn_index(qpn) << WORD_INDEX_AT | (uint64_t)life << WORD_LIFE_AT;
}

/* Has the QP anything that was sent and not executed? */
static inline bool src_is_waiting(const struct shm_qp *q)
{
	return q->src.s.una != q->src.at.max_psn;
}

/* --- source.c ------------------------------------------------------------ */

void src_reset(struct shm_qp *q, uint32_t first);
/* The QP begins to send: what the target's word asks for is not for it. */
void src_open(struct shm_qp *q);
/* The QP sends no more. */
void src_stop(struct shm_qp *q);
/* Completes what the word says, or goes back as it asks. */
void src_hear(struct shm_qp *q, uint64_t word, uint64_t now) REQUIRES(q->qp->lock);
/* src_hear() of the word as it is now, if anything is outstanding. */
static inline void src_look(struct shm_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	if (src_is_waiting(q) && q->answer)
		src_hear(q, atomic_load_explicit(q->answer, memory_order_acquire), now);
}
/* The request at the cursor fails, once all before it are done. */
void src_error(struct shm_qp *q, enum ibv_wc_status status, enum verr verr, uint64_t now)
	REQUIRES(q->qp->lock);
/* UC: what was sent needs no answer. */
void src_sent(struct shm_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* Is nothing outstanding, and nothing but the request at the cursor posted?  Completes a
 * last request that the peer has executed.  Also without the turn. */
bool src_is_idle(struct shm_qp *q) REQUIRES(q->qp->lock);
/* Does what is due; returns the next deadline. */
uint64_t src_run(struct shm_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* Completes what the peer's words up to this count say; what it has executed of all QPs.
 * The turn is held. */
void src_words(struct peer *p, uint32_t count, uint64_t now);
void src_news(struct peer *p, uint64_t now);

/* --- answer.c ------------------------------------------------------------ */

/* Takes the answers to all that was executed before number `to`.  Returns `to`, or the
 * number whose answer could not be placed, with *rc. */
uint32_t asks_hear(struct shm_qp *q, uint32_t to, int *rc);
/* The source goes back to una, or has caught up. */
void asks_rewind(struct shm_qp *q);
/* No answer is waited for any more. */
void asks_drop(struct shm_qp *q);
/* Finds the ask of the segment that is next, for an answer of len bytes, or reserves one.
 * Returns NULL if the QP must wait.  The ring's lock is held. */
struct ask *ask_find(struct shm_qp *q, uint32_t len);
/* It was sent. */
void ask_sent(struct shm_qp *q);
/* The QP has got a place, or goes without: the next one that waits for one is due. */
void ask_fed(struct shm_qp *q);
static inline bool ask_is_starved(const struct shm_qp *q)
{
	return !list_empty(&q->starved);
}

/* --- write.c ------------------------------------------------------------- */

struct ibv_send_wr *shm_post(struct qp *qp, struct ibv_send_wr *wr, enum post_left *left);
enum post_left shm_push(struct qp *qp);
bool shm_output(struct qp *qp, struct batch *b, uint64_t now);
/* Writes the QP's word into the ring, as the last that this connection says. */
bool write_word(struct shm_qp *q, uint64_t word);

/* --- way.c --------------------------------------------------------------- */

/* Puts the QP into the export table, or takes it out, as its state demands. */
void way_show(struct shm_qp *q);
/* The QP has met its peer. */
void way_meet(struct shm_qp *q);
/* As struct transport's at_once. */
struct ibv_send_wr *way_at_once(struct qp *qp, struct ibv_send_wr *wr);
/* May wr, a WRITE, READ or atomic that is posted now, go by the ring?  If not, it is for
 * the engine. */
bool way_is_ring(struct shm_qp *q, const struct ibv_send_wr *wr) REQUIRES(q->qp->lock);
/* The same for w, which is posted already and is at the cursor.  now: 0 if not known. */
bool way_is_ring_for(struct shm_qp *q, const struct swqe *w, uint64_t now)
	REQUIRES(q->qp->lock);
enum way_did {
	WAY_BY_RING, /* it must be written to the ring */
	WAY_COPIED,  /* a part of it, or all, and then it is complete */
	WAY_WAITS,
};
/* Carries on with w, which is at the cursor and has begun.  *left: segments that the QP
 * may still write in this turn. */
enum way_did way_step(struct shm_qp *q, struct swqe *w, struct wqe_memory *m,
		      unsigned *left, uint64_t now) REQUIRES(q->qp->lock);
/* Some region of the peer was used so often that the engine has to hear of it. */
bool way_has_uses(const struct shm_qp *q);
void way_tell_uses(struct shm_qp *q);

/* --- target.c ------------------------------------------------------------ */

void dst_reset(struct shm_qp *q) REQUIRES(q->qp->lock);
/* The QP begins to receive. */
void dst_open(struct shm_qp *q) REQUIRES(q->qp->lock);
/* The QP receives no more: its word is for the next QP of its number. */
void dst_close(struct shm_qp *q);
/* The QP is in ERR. */
void dst_stop(struct shm_qp *q) REQUIRES(q->qp->lock);
uint64_t dst_run(struct shm_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* Takes in a segment, of which *r has the first header. Returns false if no urnic writes
 * such a record. The turn is held. */
bool dst_take(struct peer *p, struct rec *r, const uint8_t *payload, uint32_t len,
	      uint64_t now);

/* --- end.c: how QPs were set up --------------------------------------------- */

/* The QP, which goes to RTS, tells its peer. */
void end_say(struct shm_qp *q);
/* Takes in what a peer tells. Returns false if no urnic writes such a record. */
bool end_take(struct peer *p, const struct rec *r, const uint8_t *payload, uint32_t len);

/* --- hint.c -------------------------------------------------------------- */

enum { PEER_TEXT = 128 };
/* The QP at the other end, and its process. */
const char *peer_text(const struct qp *qp, char text[static PEER_TEXT]);
/* op: of a record that was checked. */
const char *segment_name(unsigned op);
/* The peer has answered the oldest request with RNR; nothing has come from it, and the
 * oldest request is sent again. */
void hint_rnr(struct shm_qp *q, uint64_t now) REQUIRES(q->qp->lock);
void hint_silent(struct shm_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* The peer's request was answered with RNR; or has another number than is expected. */
void hint_no_recv(struct shm_qp *q, uint64_t now);
void hint_number(struct shm_qp *q, const struct rec *r, uint64_t now);
/* A segment was dropped, since there is no QP that takes it. */
void hint_dropped(struct peer *p, const struct rec *r, const char *why, uint64_t now);

/* --- qp.c ---------------------------------------------------------------- */

/* The QP is in ERR: drops what it had under way. */
void shm_stop(struct shm_qp *q) REQUIRES(q->qp->lock);
/* The same if it is in ERR, whoever moved it there. */
static inline void shm_settle(struct shm_qp *q) REQUIRES(q->qp->lock)
{
	if (__builtin_expect(q->qp->state == IBV_QPS_ERR, 0))
		shm_stop(q);
}

#endif
