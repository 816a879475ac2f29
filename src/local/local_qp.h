/* SPDX-License-Identifier: BSD-2-Clause */
/* local_qp.h - what the files of local/ share.  Everything is under the turn,
 * a QP's under qp->lock too. */
#ifndef LOCAL_LOCAL_QP_H
#define LOCAL_LOCAL_QP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/core.h"
#include "core/psn.h"
#include "core/qp.h"
#include "core/source.h"
#include "core/target.h"
#include "direct/direct.h"
#include "local/local.h"
#include "local/ring.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/list.h"

enum {
	SHARE = 256 << 10, /* bytes that a QP moves in one turn */
	SERVE = 64,	   /* records taken of a ring in one turn */
	NOT_READY_MAX = 64,
	STALL_NS = 100000000, /* who reads nothing for so long is gone
			       * for what asks no answer: UC, UD */
	SLOTS_MAX = 1024,
};

/* --- peers (peer.c) ------------------------------------------------------ */

/* Two processes' shared memory: who made it writes to ring[0] and inside[0]. */
struct pipe_shared {
	struct ring_shared ring[2];
	struct {
		_Alignas(SLOT) _Atomic uint64_t word; /* direct/direct.h */
	} inside[2];
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
	uint64_t dead_since; /* when a QP first found it dead; or 0 */
	struct pipe_shared *pipe;
	int fd; /* of an offer that was not sent; or -1 */
	struct ring_out out;
	struct ring_in in;
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
	struct list qps;     /* local_qp.node */
	struct list full;    /* local_qp.full: they wait for room */
	struct {
		uint32_t dst, src, psn, path;
	} not_ready[NOT_READY_MAX];
	unsigned not_ready_n;
};

struct local_counters {
	uint64_t out, in, out_bytes, in_bytes; /* records and their payload */
	uint64_t direct, direct_bytes;	       /* copies to or from peers' memory */
	uint64_t at_once, at_once_bytes;       /* by who posted, where it is mapped */
	uint64_t not_ready;		       /* requests that no QP took */
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
/* Does anything wait for room in the ring to it? */
static inline bool peer_waits(const struct peer *p)
{
	return !list_empty(&p->full) || p->not_ready_n;
}
/* Does somebody there look at the ring to it, and so at the one from it, without a kick?
 */
bool peer_looks(const struct peer *p);
/* What it wrote before it went is worth as much as what is on a wire. */
void peer_drain(struct peer *p);
/* Who waited for room goes on, if there is some: answers to nobody, QPs. */
void peer_admit(struct peer *p);

/* --- datagrams (dgram.c) ------------------------------------------------- */

void dgram_input(struct peer *p, const uint8_t *payload, uint32_t len, uint64_t now);

/* --- a QP ---------------------------------------------------------------- */

/* An answer that is owed, in PSN order. */
struct owed {
	uint32_t psn, len, done, rkey;
	uint64_t va;
	uint64_t orig; /* atomic */
	bool atomic;
};

struct local_req {
	uint32_t una, psn; /* [una, psn) are out */
	uint32_t cur;	   /* the work request that psn is in */
	bool begun;	   /* ... and it has PSNs */
	bool by_record;	   /* not directly: it was tried */
	uint32_t direct;   /* bytes of it that are done directly */
	uint32_t reads;	   /* READs and atomics that are out */
	uint32_t unasked;  /* messages since an ACK was asked for */
	uint8_t retry_left, rnr_left, tries;
	bool lost;		/* the oldest was answered NOT_READY */
	bool full;		/* the ring has no room */
	uint64_t timeout_at;	/* NEVER: nothing is out */
	uint64_t hold_until;	/* before that nothing is sent */
	uint32_t written;	/* where the last record ends */
	uint32_t seen, seen_in; /* how far the peer had read, and we, when
				 * the timer was set */
	/* A local error of the work request at cur, told when it is oldest. */
	bool failed;
	enum ibv_wc_status fail_status;
	enum verr fail_verr;
};

struct local_rsp {
	uint32_t epsn;
	bool dropping; /* told that psn epsn is not taken */
	bool comm_est; /* the event was raised */
	uint8_t op;    /* of the message under way, or 0 */
	struct target target;
	struct owed *owed; /* [owed_size], a ring */
	uint32_t owed_size, owed_head, owed_n;
	bool ack_due, nak_due;
	uint64_t ack_at; /* when the ACK goes at the latest; 0: now */
	uint8_t nak;	 /* enum rec_nak */
	uint32_t nak_psn;
};

struct local_qp {
	struct qp *qp;
	struct local *l;
	struct peer *peer; /* NULL: in RESET or INIT */
	struct list node, full;
	uint32_t mtu;
	uint32_t path_out, path_in; /* of the records that it writes, reads */
	struct allowed allowed;	    /* by the peer, to who posts */
	uint64_t at_once, at_once_bytes;
	struct local_req req;
	struct local_rsp rsp;
};

static inline struct local_qp *local_qp(struct qp *qp)
{
	return qp->tp;
}

static inline uint32_t packets(const struct local_qp *q, uint32_t len)
{
	return len ? (len - 1) / q->mtu + 1 : 1;
}

/* A record of q's to its peer, with head bytes of header and len of payload,
 * all filled in that does not depend on the operation.  NULL: the ring is
 * full, and q waits for room. */
struct rec *rec_new(struct local_qp *q, enum rec_op op, uint32_t head, uint32_t len);
/* The same for an ACK or NAK, which has room of its own. */
struct rec *rec_new_answer(struct local_qp *q, enum rec_op op);
void rec_send(struct local_qp *q, struct rec *r, uint32_t head, uint32_t len);

/* What initiators of other processes may know of q, now that its state has changed. */
void local_publish(struct local_qp *q);
static inline struct by local_by(const struct local_qp *q)
{
	return (struct by){ &q->peer->reach, q->qp, q->path_out };
}

/* The QP fails: what is under way of it ends first. */
void local_fail(struct local_qp *q, bool sq_only, int event, uint64_t now)
	REQUIRES(q->qp->lock);

/* --- agreeing (meet.c) --------------------------------------------------- */

void meet_let_go(struct peer *p); /* of its memory */
/* p has shut this process out: it is asked for another way in, once a second. */
void meet_ask_gate(struct peer *p, uint64_t now);
/* ... for a region that is used a lot. */
void meet_ask_map(struct peer *p, uint32_t key);
/* What its connection had no room for: once more, or never. */
void meet_say_again(struct peer *p);
void meet_forget_unsaid(struct peer *p);

/* --- requester (req.c) --------------------------------------------------- */

static inline bool lreq_alive(const struct local_qp *q)
{
	return q->qp->state == IBV_QPS_RTS || q->qp->state == IBV_QPS_SQD;
}

/* True: there is more to be sent. */
bool lreq_output(struct local_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* Its turn would be, but the ring has no room for what comes before it. */
void lreq_blocked(struct local_qp *q, uint64_t now);

/* --- completer (completer.c) --------------------------------------------- */

/* Something is out: its timer runs. */
void lreq_arm(struct local_qp *q, uint64_t now);
/* The oldest has been executed, or some of it. */
void lreq_progress(struct local_qp *q, uint64_t now);
/* Has all that is out been executed?  Then it is done, as by an ACK. */
bool lreq_all_executed(struct local_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* It has, as the peer says otherwise.  False: the QP has failed, or more was posted. */
bool lreq_executed(struct local_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* The work request that was posted last, by who posted it. */
bool lreq_at_once(struct qp *qp, const struct ibv_sge *sge);
/* A local error, once it is the oldest work request's. */
void lreq_tell_error(struct local_qp *q, uint64_t now) REQUIRES(q->qp->lock);
uint64_t lreq_run(struct local_qp *q, uint64_t now) REQUIRES(q->qp->lock);
void lreq_reset(struct local_qp *q, uint32_t psn);
void lreq_stop(struct local_qp *q);
void lreq_response(struct local_qp *q, const struct rec *r, const uint8_t *payload,
		   uint32_t len, uint64_t now) REQUIRES(q->qp->lock);

/* --- responder (rsp.c, answer.c) ----------------------------------------- */

void lrsp_request(struct local_qp *q, const struct rec *r, const uint8_t *payload,
		  uint32_t len, uint64_t now) REQUIRES(q->qp->lock);
bool lrsp_output(struct local_qp *q, uint64_t now) REQUIRES(q->qp->lock);
int lrsp_reset(struct local_qp *q, uint32_t epsn, uint32_t max_reads);
void lrsp_stop(struct local_qp *q);
bool lrsp_owes(const struct local_qp *q);
uint64_t lrsp_deadline(const struct local_qp *q);

#endif
