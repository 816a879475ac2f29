/* SPDX-License-Identifier: BSD-2-Clause */
/* iw_qp.h - what the files of iwarp/ share.  Inside iwarp/ only; docs/iwarp.md
 * is the page to read first.
 *
 * Everything here is under the engine's turn, and a QP's under qp->lock too.
 */
#ifndef IWARP_IW_QP_H
#define IWARP_IW_QP_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/answers.h"
#include "core/core.h"
#include "core/mr.h"
#include "core/qp.h"
#include "core/source.h"
#include "core/target.h"
#include "iwarp/iwarp.h"
#include "sys/clock.h"
#include "wire/ddp.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

enum {
	PLAN_MAX = 256,	   /* FPDUs of one output */
	PIECES_MAX = 1000, /* UIO_MAXIOV is 1024 */
	ARENA = 512 << 10, /* headers, copies and trailers of a plan */
	IN = 256 << 10,	   /* received at once */
	NUDGES = 3,	   /* see iw_nudge() */
	BUDGET_MIN = 16 << 10,
	BUDGET_MAX = 256 << 10,	  /* bytes of a plan */
	COPY_MAX = 256,		  /* payload that is copied anyway */
	DEPTH = 2 * IW_DEPTH_MAX, /* room for an RTR, a power of two */
};

/* What a segment is made from: DDP's header, a body that stands behind it in
 * full, and payload. */
struct seg {
	struct ddp ddp;
	uint8_t body[RDMAP_BODY_MAX];
	uint32_t body_len;
	const struct span *span; /* payload: [off, off + len) */
	uint32_t off, len;
};

/* Where a QP stands in what it sends: all that changes as FPDUs go out. */
struct iw_cursor {
	uint32_t cur, off; /* work request; bytes of it that went */
	bool begun;	   /* a segment of it went */
	bool imm;	   /* its WRITE went, its immediate has not */
	bool rtr_due, term_due, nudge_due;
	bool answered;			 /* the last message was an answer */
	uint32_t msn[RDMAP_QUEUES];	 /* next, from 1 */
	uint32_t pos;			 /* of the stream, for markers */
	uint32_t reads;			 /* q->reads.v[0 .. reads) have gone out */
	uint32_t resource, resource_off; /* q->resources.v[resource] is under way */
};

/* READs and atomics under way, oldest first: [head, cursor.reads). */
struct iw_read {
	bool atomic, rtr;
	uint32_t index, msn; /* work request; its number on queue 1 */
	uint32_t stag, len, done;
	uint64_t to;
	uint32_t id; /* atomic */
};

/* What the peer has asked for, oldest first: [cursor.resource, tail). */
struct iw_resource {
	bool atomic, rtr;
	struct rdmap_read r;
	struct rdmap_atomic_response a;
	uint8_t ddp[DDP_UNTAGGED_LEN]; /* the request, for a Terminate */
};

/* a Terminate of ours */
struct iw_term {
	uint16_t error;
	bool has_ddp, has_rdmap;
	uint16_t segment_len;
	uint8_t ddp[DDP_HDR_MAX], rdmap[RDMAP_READ_LEN];
	size_t ddp_len;
};

#define LAST_NS                                                                          \
	1000000000ull /* for the end of what has begun, and then for the                 \
		       * peer's FIN */

enum iw_life {
	LIFE_NONE, /* no connection */
	LIFE_OPEN,
	LIFE_LAST, /* what has begun goes out, a Terminate, FIN */
	LIFE_FIN,  /* FIN is out; the peer's is awaited */
	LIFE_OVER, /* close it */
};

enum { SENT = 0, WAITS = 1, ANSWERED = 2 }; /* swqe.state, before the cursor */

struct iw_qp {
	struct qp *qp;
	struct iwarp *iw;
	struct stream *stream;
	bool attached; /* the engine knows of it */
	struct iw_params p;
	size_t mulpdu;
	const struct iwarp_user *user;
	void *user_arg;
	enum iw_life life;
	uint64_t give_up_at; /* on the peer's FIN */
	bool draining;	     /* SQD: what the peer asks for now is not
			      * answered any more */
	bool closing;	     /* SQD is drained: FIN, and nothing after */
	bool fin_told;

	/* out */
	struct iw_cursor c;
	bool hold;	   /* responder: nothing goes before the peer's
			    * first FPDU */
	bool careful;	   /* copy all: memory was not there */
	uint64_t nudge_at; /* NEVER: none is needed */
	uint8_t nudges;	   /* so many were sent */
	uint32_t budget;
	uint8_t *tail; /* [MPA_MARKED_MAX]: the rest of an FPDU */
	uint32_t tail_at, tail_end;
	uint32_t tail_cur; /* no work request from here on has gone yet */
	struct {
		uint32_t head;
		struct iw_read v[DEPTH];
	} reads;
	struct {
		uint32_t tail;
		struct iw_resource v[DEPTH];
	} resources; /* of the responder */
	struct iw_term term;
	struct answers answers; /* by the peer */
	uint64_t held_until;	/* the last completion is; 0: it is not */
	/* A local error of the work request at c.cur, told when it is oldest. */
	bool failed;
	enum ibv_wc_status fail_status;
	enum verr fail_verr;

	/* in */
	uint8_t *stash; /* [MPA_MARKED_MAX]: an FPDU's beginning */
	uint32_t stash_len;
	uint32_t pos; /* of the stream, for markers */
	bool first;   /* no FPDU has come yet */
	uint32_t msn[RDMAP_QUEUES], mo[RDMAP_QUEUES];
	const struct rdmap_op *op; /* of the message on queue 0; NULL: none */
	struct target target;
	bool write_open;    /* a WRITE is under way ... */
	uint32_t write_len; /* of the last one */
};

static inline struct iw_qp *iw_qp(struct qp *qp)
{
	return qp->tp;
}

/* What the NIC has one of. */
struct iwarp {
	struct core *core;
	const struct iwarp_ops *ops;
	void *arg;
	/* The plan under way: */
	struct qp *owner;
	unsigned plans, pieces;
	size_t arena_used;
	struct iw_plan {
		struct iw_cursor after;
		uint32_t len;
	} plan[PLAN_MAX];
	struct iovec piece[PIECES_MAX];
	bool piece_open; /* the arena's end is the last one's */
	uint8_t arena[ARENA];
	uint8_t in[IN];
	uint8_t plain[MPA_FPDU_MAX]; /* without markers */
};

/* --- the connection (iwarp.c) -------------------------------------------- */

/* The QP fails: event (or -1); error: the Terminate that was set, if any. */
void iw_fail(struct iw_qp *q, int event, bool terminate, uint64_t now)
	REQUIRES(q->qp->lock);
/* It may have failed in sq_complete() or rq_complete(): then let go of all. */
void iw_settle(struct iw_qp *q, uint64_t now) REQUIRES(q->qp->lock);
void iw_ready(struct iw_qp *q);

/* --- out (fpdu.c, tx.c, requester.c, response.c) ------------------------- */

enum step {
	STEP_SEG,   /* a segment: *s, and c is behind it */
	STEP_AGAIN, /* something was done without one */
	STEP_WAIT,  /* nothing of this kind may be sent now */
	STEP_STOP,  /* nothing at all */
};

/* Append s, after which the cursor is *c, to the plan; c->pos is advanced.
 * 0; -ENOBUFS; -EFAULT. */
int iw_fpdu_put(struct iw_qp *q, const struct seg *s, struct iw_cursor *c);

/* A span that was resolved lasts for one output. */
struct work {
	struct wqe_memory memory; /* of the requester */
	struct span answer;
};

/* A peer that looks away for a moment after its MPA reply, as Linux's siw does,
 * does not see what has come by then until something else comes.  An initiator
 * that hears nothing therefore sends, a little later, a zero-length WRITE, which
 * means nothing (RFC 5040, 5.2): after 10 ms, 100 ms and 1 s.  Sets nudge_at
 * whenever something was sent. */
void iw_nudge(struct iw_qp *q, uint64_t now);

enum step iw_req_next(struct iw_qp *q, struct iw_cursor *c, struct seg *s,
		      struct work *work, uint64_t now) REQUIRES(q->qp->lock);
enum step iw_rsp_next(struct iw_qp *q, struct iw_cursor *c, struct seg *s,
		      struct work *work, uint64_t now) REQUIRES(q->qp->lock);
/* The work request at the cursor fails; told when it is the oldest. */
void iw_req_error(struct iw_qp *q, enum ibv_wc_status status, enum verr verr,
		  uint64_t now) REQUIRES(q->qp->lock);
/* Complete what is oldest and done, or has failed. */
void iw_req_complete(struct iw_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* Work requests have gone out: to the last?  Then its completion may wait for the
 * peer's answer, as with RoCE it waits for the ACK: a program that spins on memory
 * as soon as it has it, and polls no more, would have to be served by the engine's
 * thread. */
void iw_req_gone(struct iw_qp *q, uint64_t now);
/* Something has come, or nothing will: it waits no longer. */
void iw_req_release(struct iw_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* Those before `until` are flushed: one behind them is what has failed. */
void iw_req_flush(struct iw_qp *q, uint32_t until, uint64_t now) REQUIRES(q->qp->lock);
void iw_req_reset(struct iw_qp *q);

/* --- READs under way (reads.c) ------------------------------------------- */

bool iw_read_may_go(const struct iw_qp *q, const struct iw_cursor *c);
/* Its request, the next on queue 1, goes out. */
void iw_read_note(struct iw_qp *q, struct iw_cursor *c, const struct iw_read *r);
/* The one of this MSN, or NULL.  (Not an RTR.) */
const struct iw_read *iw_read_find(const struct iw_qp *q, uint32_t msn);
void iw_read_response(struct iw_qp *q, const struct ddp *d, const uint8_t *at,
		      uint32_t len, uint64_t now) REQUIRES(q->qp->lock);
void iw_atomic_response(struct iw_qp *q, const struct ddp *d, const uint8_t *at,
			uint64_t now) REQUIRES(q->qp->lock);

/* --- in (rx.c, responder.c) ---------------------------------------------- */

void iw_rsp_reset(struct iw_qp *q);
/* A segment has come: n bytes of ULPDU. */
void iw_rsp_segment(struct iw_qp *q, const uint8_t *ulpdu, size_t n, uint64_t now)
	REQUIRES(q->qp->lock);

/* --- Terminates (term.c) ------------------------------------------------- */

/* The segment under way breaks a rule: a line in the log, a Terminate, ERR.
 * d: its header, or NULL; read: what it asked for, or NULL. */
void iw_terminate(struct iw_qp *q, enum rdmap_error error, const struct ddp *d,
		  size_t ulpdu, const uint8_t *read, int event, uint64_t now)
	REQUIRES(q->qp->lock);
enum step iw_term_next(struct iw_qp *q, struct iw_cursor *c, struct seg *s);
void iw_term_received(struct iw_qp *q, const uint8_t *at, size_t n, uint64_t now)
	REQUIRES(q->qp->lock);
/* Why a key was refused, in a Terminate of DDP (tagged) or of RDMAP. */
enum rdmap_error iw_term_of(enum mr_why why, bool tagged);

#endif
