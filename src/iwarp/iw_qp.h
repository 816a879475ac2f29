/* SPDX-License-Identifier: BSD-2-Clause */
/* iw_qp.h - what the files of iwarp/ share.  Inside iwarp/ only; read docs/dev/iwarp.md
 * first.
 *
 * Everything here needs the engine's turn; the state of a QP needs qp->lock as well. */
#ifndef IWARP_IW_QP_H
#define IWARP_IW_QP_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "iwarp/iwarp.h"
#include "sys/clock.h"
#include "verbs/answers.h"
#include "verbs/core.h"
#include "verbs/mr.h"
#include "verbs/qp.h"
#include "verbs/source.h"
#include "verbs/target.h"
#include "wire/ddp.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

enum {
	PLAN_MAX = 256,	   /* FPDUs in one output */
	PIECES_MAX = 1000, /* below UIO_MAXIOV, which is 1024 */
	ARENA = 512 << 10, /* room for headers, copies and trailers of a plan */
	IN = 256 << 10,	   /* bytes received at once */
	NUDGES = 3,	   /* at most so many: see iw_nudge() */
	BUDGET_MIN = 16 << 10,
	BUDGET_MAX = 256 << 10,	  /* the limits of a plan's bytes */
	COPY_MAX = 256,		  /* payload up to this size is always copied */
	DEPTH = 2 * IW_DEPTH_MAX, /* room for an RTR as well; a power of two */
};

/* A segment to be sent: DDP's header, a short body of its own, and payload. */
struct seg {
	struct ddp ddp;
	uint8_t body[RDMAP_BODY_MAX];
	uint32_t body_len;
	const struct span *span; /* payload is [off, off + len) of it */
	uint32_t off, len;
};

/* How far a QP has sent: all state that changes as FPDUs go out. */
struct iw_cursor {
	struct send_cursor
		s;    /* its numbers are messages: a WRITE with immediate has two */
	uint32_t off; /* bytes of the message at s.psn that were sent */
	bool rtr_due, term_due, nudge_due;
	bool answered;			 /* the last message sent was a response */
	uint32_t msn[RDMAP_QUEUES];	 /* of the next message on each queue, from 1 */
	uint32_t pos;			 /* position in the stream, for markers */
	uint32_t resource, resource_off; /* q->resources.v[resource] is being sent */
};

/* A READ or atomic that is outstanding (verbs/source.h), or an RTR. */
struct iw_read {
	bool atomic, rtr;
	uint32_t index, msn; /* of the work request; on queue 1 */
	uint32_t stag, len, done;
	uint64_t to;
	uint32_t id; /* of an atomic request */
};

/* A READ or atomic that the peer has requested.  They are [cursor.resource, tail), oldest
 * first. */
struct iw_resource {
	bool atomic, rtr;
	struct rdmap_read r;
	struct rdmap_atomic_response a;
	uint8_t ddp[DDP_UNTAGGED_LEN]; /* header of the request, for a Terminate */
};

/* The Terminate that this QP sends. */
struct iw_term {
	uint16_t error;
	bool has_ddp, has_rdmap;
	uint16_t segment_len;
	uint8_t ddp[DDP_HDR_MAX], rdmap[RDMAP_READ_LEN];
	size_t ddp_len;
};

#define LAST_NS                                                                          \
	1000000000ull /* for what has begun to go out, and then for the peer's FIN */

/* How long a message waits for its receive: docs/dev/iwarp.md. */
#define IW_RECV_WAIT_NS 1000000000ull

enum iw_life {
	LIFE_NONE, /* no connection */
	LIFE_OPEN,
	LIFE_LAST, /* sends what has begun, a Terminate, FIN */
	LIFE_FIN,  /* FIN was sent; waits for the peer's */
	LIFE_OVER, /* the stream must be closed */
};

/* A message that finds no receive (late.c). */
struct iw_late {
	bool waits, paused; /* paused: the engine asks the stream for no bytes */
	bool told;	    /* by the log, of this connection */
	uint32_t msn;	    /* of the message */
	uint64_t until;	    /* the end of its wait, if it waits */
	uint8_t *kept;	    /* [at, end): what was received behind its first FPDU */
	uint32_t at, end;
};

struct iw_qp {
	struct qp *qp;
	struct iwarp *iw;
	struct stream *stream;
	bool attached; /* the engine knows the stream */
	struct iw_params p;
	size_t mulpdu;
	const struct iwarp_user *user;
	void *user_arg;
	enum iw_life life;
	uint64_t give_up_at; /* when to stop waiting for the peer's FIN */
	bool draining;	     /* SQD: new requests of the peer are not answered */
	bool closing;	     /* SQD is drained: FIN is sent, and nothing after it */
	bool fin_told;

	/* out */
	struct send_source src;
	struct iw_cursor c;
	bool hold;	   /* responder: sends nothing before the peer's first FPDU */
	bool careful;	   /* copies all payload, since memory was found unmapped */
	uint64_t nudge_at; /* NEVER: no nudge is needed */
	uint8_t nudges;	   /* nudges that were sent */
	uint32_t budget;
	uint8_t *tail; /* [MPA_MARKED_MAX]: the rest of an FPDU that was sent in part */
	uint32_t tail_at, tail_end;
	uint32_t tail_psn; /* messages from here on are not completely sent */
	struct iw_read reads[DEPTH];
	struct {
		uint32_t tail;
		struct iw_resource v[DEPTH];
	} resources; /* of the responder */
	struct iw_term term;
	struct answers answers; /* how promptly the peer answers */
	uint64_t held_until;	/* the last completion waits until then; 0: it does not */

	/* in */
	uint8_t *stash; /* [MPA_MARKED_MAX]: the beginning of an FPDU */
	uint32_t stash_len;
	uint32_t pos; /* position in the stream, for markers */
	bool first;   /* no FPDU has come yet */
	uint32_t msn[RDMAP_QUEUES], mo[RDMAP_QUEUES];
	/* Opcode of the message under way on queue 0; NULL: none. */
	const struct rdmap_op *op;
	struct target target;
	bool write_open;    /* a WRITE is under way */
	uint32_t write_len; /* length of the last WRITE, so far */
	struct iw_late late;
};

static inline struct iw_qp *iw_qp(struct qp *qp)
{
	return qp->tp.state;
}

/* The NIC's own state. */
struct iwarp {
	struct core *core;
	const struct iwarp_ops *ops;
	void *arg;
	uint64_t late_ns; /* IW_RECV_WAIT_NS; 0: no message waits for a receive */
	/* The plan of the present output: */
	struct qp *owner;
	unsigned plans, pieces;
	size_t arena_used;
	struct iw_plan {
		struct iw_cursor after;
		uint32_t len;
	} plan[PLAN_MAX];
	struct iovec piece[PIECES_MAX];
	bool piece_open; /* the last piece ends at the arena's end and can grow */
	uint8_t arena[ARENA];
	uint8_t in[IN];
	uint8_t plain[MPA_FPDU_MAX]; /* an FPDU without markers */
};

/* --- the connection (qp.c) ----------------------------------------------- */

/* Puts the QP into ERR and raises event (-1: none).  terminate: sends the Terminate in
 * q->term. */
void iw_fail(struct iw_qp *q, int event, bool terminate, uint64_t now)
	REQUIRES(q->qp->lock);
/* sq_complete() and rq_complete() may put the QP into ERR, where its CQ overruns.  Call
 * this after them: it ends the connection if so. */
void iw_settle(struct iw_qp *q, uint64_t now) REQUIRES(q->qp->lock);
void iw_ready(struct iw_qp *q);

/* --- out (fpdu.c, tx.c, requester.c, response.c) ------------------------- */

enum step {
	STEP_SEG,   /* *s is a segment, and the cursor is behind it */
	STEP_AGAIN, /* something was done that needs no segment */
	STEP_WAIT,  /* no segment of this kind may be sent now */
	STEP_STOP,  /* no segment at all may be sent now */
};

/* Appends the segment s to the plan; *c is the cursor behind it, and c->pos is advanced
 * here.  Returns 0, -ENOBUFS (the plan is full) or -EFAULT (the payload's memory is
 * gone). */
int iw_fpdu_put(struct iw_qp *q, const struct seg *s, struct iw_cursor *c);

/* Spans that were resolved; they are valid for one output. */
struct work {
	struct wqe_memory memory; /* of the requester */
	struct span answer;
};

/* Sets nudge_at; call it whenever something was sent.  A peer that does not poll its
 * socket for a moment after its MPA reply, as Linux's siw does, does not see what has
 * come by then until more comes.  So an initiator that hears nothing sends a zero-length
 * WRITE, which has no effect (RFC 5040, 5.2), after 10 ms, 100 ms and 1 s. */
void iw_nudge(struct iw_qp *q, uint64_t now);

enum step iw_req_next(struct iw_qp *q, struct iw_cursor *c, struct seg *s,
		      struct work *work, uint64_t now) REQUIRES(q->qp->lock);
enum step iw_rsp_next(struct iw_qp *q, struct iw_cursor *c, struct seg *s,
		      struct work *work, uint64_t now) REQUIRES(q->qp->lock);
/* The work request at the cursor fails, once it is the oldest. */
void iw_req_error(struct iw_qp *q, enum ibv_wc_status status, enum verr verr,
		  uint64_t now) REQUIRES(q->qp->lock);
/* Completes the oldest work requests that are done or have failed. */
void iw_req_complete(struct iw_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* Work requests were sent.  If they were the last posted, the last completion may wait
 * for the peer's answer, as with RoCE it waits for the ACK: a program that polls no more
 * once it has the completion, and spins on memory instead, would have to be served by the
 * engine's thread. */
void iw_req_gone(struct iw_qp *q, uint64_t now);
/* The peer sent something, or never will: a completion that waited is made now. */
void iw_req_release(struct iw_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* Flushes the work requests before `until`: a later one is the one that failed. */
void iw_req_flush(struct iw_qp *q, uint32_t until, uint64_t now) REQUIRES(q->qp->lock);
void iw_req_reset(struct iw_qp *q);

/* --- READs under way (reads.c) ------------------------------------------- */

/* Enters the READ or atomic r, which is the next message on queue 1. */
void iw_read_note(struct iw_qp *q, struct iw_cursor *c, const struct iw_read *r);
/* The outstanding READ or atomic with this MSN; NULL if there is none, or it is an
 * RTR. */
const struct iw_read *iw_read_find(const struct iw_qp *q, uint32_t msn);
void iw_read_response(struct iw_qp *q, const struct ddp *d, const uint8_t *at,
		      uint32_t len, uint64_t now) REQUIRES(q->qp->lock);
void iw_atomic_response(struct iw_qp *q, const struct ddp *d, const uint8_t *at,
			uint64_t now) REQUIRES(q->qp->lock);

/* --- in (rx.c, responder.c) ---------------------------------------------- */

void iw_rsp_reset(struct iw_qp *q);
/* Executes a segment: a ULPDU of n bytes. */
void iw_rsp_segment(struct iw_qp *q, const uint8_t *ulpdu, size_t n, uint64_t now)
	REQUIRES(q->qp->lock);

/* --- messages that find no receive (late.c, rx.c) ------------------------ */

/* The message of the segment under way, which is its first, finds no receive.  Returns
 * true if it waits: then the segment has changed nothing but by this call, and its FPDU
 * goes to the stash and what came behind it to iw_late_keep(). */
bool iw_late(struct iw_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* The n bytes at `at` came behind the FPDU that waits; a second call for the same bytes
 * says how many are left. */
void iw_late_keep(struct iw_qp *q, const uint8_t *at, size_t n);
/* Goes on if there is a receive or the time is up. */
void iw_late_run(struct iw_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* Takes in the FPDU in the stash, and then n bytes. */
void iw_take_in(struct iw_qp *q, const uint8_t *at, size_t n, uint64_t now)
	REQUIRES(q->qp->lock);
/* No message waits any more; and: its bytes are not needed. */
void iw_late_end(struct iw_qp *q);
void iw_late_forget(struct iw_qp *q);

/* --- Terminates (term.c) ------------------------------------------------- */

/* The segment under way breaks a rule: logs it, prepares the Terminate and fails the QP.
 * d: the segment's header, or NULL; ulpdu: its length; read: the READ request's RDMAP
 * header, or NULL; event: to raise, or -1. */
void iw_terminate(struct iw_qp *q, enum rdmap_error error, const struct ddp *d,
		  size_t ulpdu, const uint8_t *read, int event, uint64_t now)
	REQUIRES(q->qp->lock);
enum step iw_term_next(struct iw_qp *q, struct iw_cursor *c, struct seg *s);
void iw_term_received(struct iw_qp *q, const uint8_t *at, size_t n, uint64_t now)
	REQUIRES(q->qp->lock);
/* The error code of a Terminate for a key that was refused for `why`, by DDP (tagged) or
 * by RDMAP. */
enum rdmap_error iw_term_of(enum mr_why why, bool tagged);

#endif
