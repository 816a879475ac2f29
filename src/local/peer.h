/* SPDX-License-Identifier: BSD-2-Clause */
/* peer.h - what the files of local/ share: other processes of this host, and the rings
 * that this process and each of them write to.  Everything is under the turn. */
#ifndef LOCAL_PEER_H
#define LOCAL_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/core.h"
#include "direct/direct.h"
#include "link/lane.h"
#include "local/local.h"
#include "local/ring.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/list.h"
#include "sys/qpn.h"

enum {
	SERVE = 64,	      /* records taken of a ring in one turn */
	STALL_NS = 100000000, /* a peer that reads nothing for so long is gone for what
			       * asks no answer: UC, UD */
	SLOTS_MAX = 1024,
};

enum { ANSWERS = 4 }; /* a power of 2 */

/* How often it was executed what asked for an ACK, and the last words that said so: a
 * line that the other may look at all the time, for it changes only then.  (Two lines:
 * processors fetch pairs.) */
struct answered {
	_Alignas(2 * SLOT) _Atomic uint32_t count;
	_Atomic uint64_t word[ANSWERS]; /* the n-th at n % ANSWERS */
};

/* Two processes' shared memory: who made it writes to ring[0] and inside[0]. */
struct pipe_shared {
	struct ring_shared ring[2];
	struct {
		_Alignas(SLOT) _Atomic uint64_t word; /* direct/direct.h */
	} inside[2];
	struct answered answered[2];
	_Alignas(SLOT) _Atomic uint64_t executed[2][QPN_INDICES]; /* link/lane.h */
};

struct peer {
	struct list node; /* local->peers */
	struct local *l;
	uint16_t slot;
	enum peer_state {
		PEER_OPENING, /* QPs wait */
		PEER_UP,
		PEER_REFUSED, /* the wire it is */
		PEER_DEAD,    /* no new QP comes here */
	} state;
	struct lane lane; /* of its QPs; its state follows this one's */
	struct pipe_shared *pipe;
	int fd; /* of an offer that was not sent; or -1 */
	struct ring_out out;
	struct ring_in in;
	struct answered *answers;	 /* pipe->answered of ours */
	const struct answered *answered; /* ... of its */
	uint32_t nudged;		 /* answers->count */
	uint32_t heard;	      /* what that was when our QPs looked for answers */
	bool same_user;	      /* as both opened */
	struct reach reach;   /* its memory, and ours for it */
	uint8_t say, say_yes; /* a message that could not be sent */
	bool kick;	      /* ... and one more */
	bool mapped;	      /* some of its memory lies here */
	uint32_t want_map;    /* ... and a region that it is to be asked for, or 0 */
	uint64_t full_since;  /* peer_reads() */
	uint32_t full_at;
	struct list node_up; /* in local->hot or local->cold while it is up */
	bool is_hot;	     /* its writer does not kick: the ring is looked at */
	struct list dirty;   /* in local->dirty: written to */
};

struct local_counters {
	uint64_t out, in, out_bytes, in_bytes; /* records and their payload */
	/* Of peers that have gone: lane.direct, lane.at_once. */
	uint64_t direct, direct_bytes, at_once, at_once_bytes;
};

struct local {
	struct local_counters count;
	struct core *core;
	struct host *host;
	const struct local_ops *ops;
	void *arg;
	enum local_way way;
	const char *off_why;
	struct list peers, dirty, dead;
	struct list hot, cold; /* peers that are up */
	_Atomic unsigned nhot; /* so many are in hot */
	bool one_sided;	       /* local_got */
	struct peer *by_slot[SLOTS_MAX];
	struct peer *self;	   /* by_slot[our own] */
	unsigned unsaid;	   /* peers with something to be said */
	uint64_t now;		   /* of the last input */
	uint64_t said_broken;	   /* log_allowed() */
	uint8_t dgram[RING_CHUNK]; /* one that nobody writes to any more */
};

/* --- peers (peer.c) ------------------------------------------------------ */

struct peer *peer_new(struct local *l, uint16_t slot); /* opening; or NULL */
void peer_up(struct peer *p);
void peer_refuse(struct peer *p, const char *why); /* if it is opening */
void peer_broken(struct peer *p, const char *why);
void peer_release(struct peer *p); /* when its last QP has gone */
void local_bury(struct local *l);  /* those that were released */
/* The peer was written to: it is to be woken at the turn's end. */
void peer_wrote(struct peer *p);
/* p's ring is full.  Has it read something lately, or is there no waiting? */
bool peer_reads(struct peer *p, uint64_t now);
void peer_heat(struct peer *p);
void peer_cool(struct peer *p);
void peer_kick(struct peer *p);
/* Does a QP wait for room in the ring to it? */
static inline bool peer_waits(const struct peer *p)
{
	return lane_is_awaited(&p->lane);
}
/* Does somebody there look at the ring to it, and so at the one from it, without a kick?
 */
bool peer_looks(const struct peer *p);
/* What it wrote before it went is worth as much as what is on a wire. */
void peer_drain(struct peer *p);
/* It has executed what our QPs wait for. */
static inline bool peer_has_news(const struct peer *p)
{
	return !list_empty(&p->lane.unanswered) &&
	       atomic_load_explicit(&p->answered->count, memory_order_acquire) !=
		       p->heard;
}
/* QPs that waited for room are due, if there is some. */
void peer_admit(struct peer *p);

/* --- what is in the rings (lane.c, dgram.c) ------------------------------ */

void peer_make_lane(struct peer *p);
/* Its memory is not there any more. */
void peer_forget_pipe(struct peer *p);
/* False: no urnic writes such a record. */
bool lane_input(struct peer *p, const struct rec *r, const uint8_t *payload, uint32_t len,
		uint64_t now);
void dgram_input(struct peer *p, const uint8_t *payload, uint32_t len, uint64_t now);

/* --- the handshake (handshake.c) ----------------------------------------- */

void handshake_let_go(struct peer *p); /* of its memory */

/* --- messages (say.c) ----------------------------------------------------- */

/* p has shut this process out: it is asked for another way in, once a second. */
void peer_ask_gate(struct peer *p, uint64_t now);
/* ... for a region that is used a lot. */
void peer_ask_map(struct peer *p, uint32_t key);
/* What its connection had no room for: once more, or never. */
void peer_say_again(struct peer *p);
void peer_forget_unsaid(struct peer *p);

#endif
