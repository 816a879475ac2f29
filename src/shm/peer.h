/* SPDX-License-Identifier: BSD-2-Clause */
/* peer.h - what the files of shm/ share: other processes of this host, and the two
 * rings between this process and each of them.  All needs the turn. */
#ifndef SHM_PEER_H
#define SHM_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "direct/direct.h"
#include "net/dgram.h"
#include "shm/peers.h"
#include "shm/reply.h"
#include "shm/ring.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/list.h"
#include "sys/lock.h"
#include "sys/source.h"
#include "verbs/core.h"
#include "verbs/hang.h"
#include "verbs/qp.h"
#include "wire/qpn.h"

enum {
	SERVE = 64, /* records taken from a ring in one turn */
	/* For a peer that reads nothing for so long UC and UD drop what finds no room. */
	STALL_NS = 100000000,
	SLOTS_MAX = 1024,
	/* The thread that copies to a peer's memory looks so often for the answer to
	 * SAY_ASK_MAP. The engine's thread, which might share a processor with it, might
	 * not run for milliseconds. */
	ANSWER_LOOKS = 256,
};

enum { ANSWERS = 4 }; /* a power of 2 */
enum { PEER_DROPS = 4 };

/* The ACKs of one process: how many requests that asked for an ACK it has executed, and
 * the last words (shm/shm_qp.h) that say so.  The peer may poll this memory cheaply,
 * since it changes only then.  Aligned to two cache lines, because processors fetch lines
 * in pairs. */
struct answered {
	_Alignas(2 * SLOT) _Atomic uint32_t count;
	_Atomic uint64_t word[ANSWERS]; /* the n-th is at n % ANSWERS */
};

/* The memory that two processes share.  The process that made it writes to ring[0],
 * inside[0], answered[0], executed[0] and reply[1], the other to the others. */
struct pipe_shared {
	struct ring_shared ring[2];
	struct {
		_Alignas(SLOT) _Atomic uint64_t word; /* direct/direct.h */
	} inside[2];
	struct answered answered[2];
	_Alignas(SLOT) _Atomic uint64_t executed[2][QPN_INDICES]; /* struct peer */
	struct reply_shared reply[2];
	/* QPs that use the wire all the same (avoid.c), by their index */
	atomic_bool wires[2][QPN_INDICES];
};

/* The path of a QP's requests, as numbers that both ends compute alike for both
 * directions. */
struct peer_route {
	uint32_t out, in;
};

/* What shm/ knows of a QP that leads to a peer. */
struct peer_qp {
	struct qp *qp;
	struct list node; /* in peer->qps; turn */
	struct list wait; /* in peer->line; turn */
};

struct peers_counters {
	struct traffic traffic;	       /* of QPs, and datagrams */
	uint64_t direct, direct_bytes; /* copies by the kernel */
	uint64_t requests;	       /* posted; datagrams that were sent */
};

struct peer {
	struct list node; /* local->peers */
	struct peers *l;
	uint16_t slot;
	enum peer_state {
		PEER_OPENING, /* the QPs that lead to it wait */
		PEER_UP,
		PEER_REFUSED, /* the QPs that lead to it use the wire */
		PEER_DEAD,    /* takes no new QPs */
	} state;
	struct list qps;     /* of struct peer_qp */
	uint64_t dead_since; /* ns; when a QP first found the peer dead; 0: none has */
	struct pipe_shared *pipe;
	int fd; /* memory of an offer that was not sent yet; or -1 */
	/* It is just up, and what its ring has may be for QPs that have waited. */
	bool fresh;
	/* Posting threads write to the ring without the turn: this lock guards `out`,
	 * `unanswered`, and `replies`. */
	struct brief_lock writing;
	/* Threads that post leave the ring alone: the peer is not up, its QPs have not
	 * heard of that yet, or a QP waits for room that they would take away. */
	atomic_bool closed;
	struct ring_out out;
	struct ring_in in;
	/* QPs that wait for room (line.c).  While the line is open, the first is due. */
	struct list line;
	bool open;
	/* What is left of RING_SHARE for the first since out.head was turn_at. */
	uint32_t left, turn_at;
	struct list unanswered; /* QPs that have asked for an ACK (shm/) */
	/* What each QP has executed, by the QP's index (wire/qpn.h): ours for the other
	 * process to read, and its own. */
	_Atomic uint64_t *executed;
	const _Atomic uint64_t *theirs;
	atomic_bool *wires; /* of this process's QPs */
	const atomic_bool *their_wires;
	struct reply_room replies;    /* where the peer answers */
	struct reply_shared *replied; /* where it is answered */
	struct list starved;	      /* QPs that wait for a place for an answer; turn */
	struct answered *answers;     /* pipe->answered[] of this process */
	const struct answered *answered; /* pipe->answered[] of the peer */
	uint32_t nudged;		 /* the last count stored in answers->count */
	uint32_t heard;			 /* answered->count when our QPs last looked */
	/* Had both processes one user when they opened their first device? */
	bool same_user;
	struct reach reach;   /* the peer's memory for direct copies, and ours for it */
	uint8_t say, say_yes; /* a message that the connection had no room for */
	bool kick;	      /* a SAY_KICK that the connection had no room for */
	bool mapped;	      /* some of the peer's memory is mapped here */
	/* Key of a region that the peer is to be asked to lend; 0: none. */
	uint32_t want_map;
	uint64_t full_since; /* since when the ring is full: peer_reads() */
	uint32_t full_at;
	struct list node_up; /* in local->hot or local->cold while up */
	bool is_hot;	     /* the ring is polled, so its writer sends no KICK */
	struct list dirty;   /* in local->dirty if it was written to */
	struct hang drops[PEER_DROPS]; /* segments for QPs that take none (shm/hint.c) */
	/* Of QPs that have left; all that is direct. */
	struct peers_counters past;
};

struct peers {
	struct source source;
	struct peers_counters count; /* datagrams, and of peers that have ended */
	struct core *core;
	struct host *host;
	const struct peers_ops *ops;
	void *arg;
	enum local_way way;
	_Atomic unsigned npeers; /* that there ever were */
	const char *off_why;
	bool avoid;	     /* avoid.c */
	bool *_Atomic wires; /* [QPN_INDICES]; NULL: none ever was */
	struct list peers, dirty, dead;
	struct list hot, cold; /* lists of peers that are up */
	_Atomic unsigned nhot; /* length of hot */
	bool one_sided;	       /* for struct peers_got */
	struct peer *by_slot[SLOTS_MAX];
	struct peer *self;	  /* by_slot[] of this process */
	unsigned unsaid;	  /* number of peers with messages that wait */
	const struct peer *asked; /* the last that SAY_ASK_MAP went to; only compared */
	unsigned looks;		  /* that remain for its answer, of ANSWER_LOOKS */
	uint64_t say_at; /* ns; not before; when a connection had no room, or refuses
			    descriptors until its owner has run */
	uint64_t now;	 /* time of the last peers_input() */
	uint64_t said_broken, said_dropped; /* for log_allowed() */
	/* A copy of the datagram that came in, which its writer cannot change. */
	uint8_t dgram[RING_CHUNK];
};

/* What follows may reach cancellation points, and the turn may be a brief one. Not while
 * cancellation is held off (sys/cancel.h): the turn would take that for the thread's own
 * state. */
static inline void peers_prolong(struct peers *l)
{
	turn_is_held(l->core);
	turn_prolong(&l->core->turn);
}

/* Around every use of p->out. */
static inline NO_TSA void peer_lock(struct peer *p)
{
	brief_take(&p->writing);
}

static inline NO_TSA void peer_unlock(struct peer *p)
{
	brief_give(&p->writing);
}

/* In exit(): is the lock held by the very thread that ends, which will not go on? */
static inline bool peer_stays_locked(const struct peer *p)
{
	return p->l->core->leaving && !brief_comes_free(&p->writing);
}

/* Tells the peer, which waits for it, that what `word` says was executed, and wakes it at
 * the turn's end if it sleeps. */
static inline void peer_nudge(struct peer *p, uint64_t word)
{
	struct answered *a = p->answers;
	const uint32_t n = ++p->nudged;

	atomic_store_explicit(&a->word[n % ANSWERS], word, memory_order_release);
	atomic_store_explicit(&a->count, n, memory_order_release);
	if (list_empty(&p->dirty))
		list_add_tail(&p->l->dirty, &p->dirty);
}

/* Gets the words up to `count` that were not heard yet.  Returns false if some of them
 * were overwritten already, or might be while they are read. */
static inline bool peer_words(struct peer *p, uint32_t count, uint64_t word[ANSWERS],
			      uint32_t *n)
{
	const struct answered *a = p->answered;
	uint32_t i = 0;

	*n = count - p->heard;
	if (*n >= ANSWERS)
		return false;
	do {
		word[i] = atomic_load_explicit(&a->word[(p->heard + 1 + i) % ANSWERS],
					       memory_order_acquire);
	} while (++i < *n);
	/* Relaxed: who saw a later word acquired, with it, the count before that word. */
	return atomic_load_explicit(&a->count, memory_order_relaxed) - p->heard < ANSWERS;
}

/* Is there certainly nothing for peers_input() in the hot rings?  One load for each. */
bool rings_are_quiet(const struct peers *l);

/* --- peers (peer.c) ------------------------------------------------------ */

/* Makes a peer in PEER_OPENING.  Returns NULL without memory. */
struct peer *peer_new(struct peers *l, uint16_t slot);
void peer_up(struct peer *p);
void peer_refuse(struct peer *p, const char *why); /* only while it is PEER_OPENING */
void peer_broken(struct peer *p, const char *why);
void peer_release(struct peer *p); /* buried once its last QP has left */
void peers_bury(struct peers *l);  /* frees released peers */
/* The peer's ring was written to: the peer will be woken at the turn's end. */
void peer_wrote(struct peer *p);
/* p's ring is full, or not there yet.  Returns false if the peer has read nothing for
 * STALL_NS. */
bool peer_reads(struct peer *p, uint64_t now);
void peer_heat(struct peer *p);
void peer_cool(struct peer *p);
void peer_kick(struct peer *p);
/* Are the words there, of a peer that is up or was? */
static inline bool peer_has_met(const struct peer *p)
{
	return p->executed && (p->state == PEER_UP || p->state == PEER_DEAD);
}
/* May threads that post write to the ring from now on? */
static inline void peer_let_posters(struct peer *p)
{
	atomic_store(&p->closed, p->state != PEER_UP || !list_empty(&p->line));
}
/* Reads how far the peer has read.  False: it says what cannot be, and is broken now. */
bool peer_look(struct peer *p);
struct peer_route peer_route(const struct link_addr *addr);
/* The QP, which is locked, leads to the peer; or does no more. */
void peer_join(struct peer *p, struct peer_qp *q);
void peer_leave(struct peer *p, struct peer_qp *q);
/* Some of the peer's memory is mapped here: threads that post may use it. */
void peer_is_mapped(struct peer *p);
/* Does any QP wait for room in p's ring? */
static inline bool peer_waits(const struct peer *p)
{
	return !p->open && !list_empty(&p->line);
}
/* Does the peer poll its ring, and so the ring from it, without a KICK? */
bool peer_looks(const struct peer *p);
/* Takes in what the peer wrote before it ended: like packets that are on a wire
 * already. */
void peer_drain(struct peer *p);
/* Has the peer executed requests that our QPs wait for? */
static inline bool peer_has_news(const struct peer *p)
{
	return atomic_load_explicit(&p->answered->count, memory_order_acquire) !=
	       p->heard;
}
/* Makes QPs that wait for room due, if there is room. */
void peer_admit(struct peer *p);

/* The pipe is unmapped, so nothing may point into it. */
void peer_forget_pipe(struct peer *p);

/* --- the line (line.c) --------------------------------------------------- */

/* QPs that find no room in the ring stand in line.  While the line is open, the first
 * takes a share of the room and goes to the line's end if it has more to write; whoever
 * comes stands behind the others.  All with the turn held.
 *
 * May the QP write now?  (In exit() locked QPs are passed over.) */
bool line_lets(const struct peer *p, const struct peer_qp *q);
/* Puts the QP at the end of the line if it was its turn or it was in none.  full: the
 * ring has no room, which shuts the line; otherwise it is not the QP's turn, or no
 * longer.
 */
void line_wait(struct peer *p, struct peer_qp *q, bool full);
void line_leave(struct peer *p, struct peer_qp *q);
/* Around the output of a QP: begins its turn, if it is its turn.  If it was, the end
 * calls the next. */
bool line_begin(struct peer *p, struct peer_qp *q);
void line_end(struct peer *p, struct peer_qp *q);
/* There is room again for the first in line, which becomes due. */
void line_open(struct peer *p);
static inline bool line_has(const struct peer_qp *q)
{
	return !list_empty(&q->wait);
}

/* --- datagrams (dgram.c) ------------------------------------------------- */

void dgram_input(struct peer *p, const uint8_t *payload, uint32_t len, uint64_t now);

/* --- QPs that use the wire (avoid.c) --------------------------------------- */

/* p's memory is there: shows it which QPs use the wire. */
void avoid_show(struct peer *p);

/* --- the handshake (handshake.c) ----------------------------------------- */

void handshake_let_go(struct peer *p); /* unmaps and closes what the two share */

/* --- messages (say.c) ----------------------------------------------------- */

/* The peer has shut this process out of its memory: asks it for a new nonce, at most once
 * a second. */
void peer_ask_gate(struct peer *p, uint64_t now);
/* Asks the peer to lend the region of key, which is used a lot. */
void peer_ask_map(struct peer *p, uint32_t key);
/* peer_say_again() sends the messages that wait; SAY_AGAIN_NS later again if they must
 * still wait, since each attempt is a system call and a poller takes many turns;
 * peer_forget_unsaid() drops them. */
enum { SAY_AGAIN_NS = 1000000 };
void peer_say_again(struct peer *p);
void peer_forget_unsaid(struct peer *p);

#endif
