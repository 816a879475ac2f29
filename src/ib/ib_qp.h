/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_qp.h - what the files of ib/ share: a QP's two halves, the datagrams that
 * they make, and the tables of the NIC.  Inside ib/ only; docs/ib.md is the
 * page to read first.
 *
 * Everything here is under the engine's turn, and a QP's under qp->lock too.
 */
#ifndef IB_IB_QP_H
#define IB_IB_QP_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/answers.h"
#include "core/core.h"
#include "core/exports.h"
#include "core/psn.h"
#include "core/qp.h"
#include "core/room.h"
#include "core/source.h"
#include "core/target.h"
#include "core/timeout.h"
#include "direct/direct.h"
#include "ib/counters.h"
#include "ib/xrc.h"
#include "link/batch.h"
#include "link/dgram.h"
#include "link/lane.h"
#include "sys/clock.h"
#include "sys/list.h"
#include "sys/qpn.h"
#include "wire/ib_hdr.h"
#include "wire/ib_pkt.h"

struct ib;
struct relay;

enum {
	RD_MAX = 256,	 /* READs and atomics, out and in, and
			  * room for as many duplicates */
	REQ_SHARE = 64,	 /* packets of requests in one output(), */
	REQ_UNIT = 4096, /* ... or so many times as many bytes of a lane */
	RSP_SHARE = 32,	 /* ... and of responses */
	PACED_SHARE = 4, /* ... and of either by a path that has a static rate */
	ACK_EVERY = 16,	 /* packets of a message without AckReq */
	NO_BURST = 0x7fffffff,
};

/* --- the congestion window of a destination (cc.c) -------------------------- */

struct cc_host {
	struct list node;
	const struct link *link;
	uint8_t gid[16]; /* where to, as link->dest() has it */
	uint16_t lid;
	unsigned users;
	uint32_t window, flight; /* cost: bytes and what the kernel adds */
	uint32_t planned;	 /* of the present batch */
	uint32_t promised;	 /* to those that were woken: cc_answer() */
	uint32_t grown;		 /* acknowledged since it grew by a step */
	uint64_t cut_at;	 /* when it was last halved */
	struct list waiting;	 /* qp->cc_node */
};

enum {
	CC_PACKET = 768,	   /* what the kernel charges a datagram for */
	CC_WINDOW_MAX = 192 << 10, /* under a socket buffer of 208 KiB */
	CC_WINDOW_MIN = 8 << 10,
};

struct ib_qp;

struct cc_host *cc_get(struct ib *ib, const struct path *path); /* or NULL */
bool cc_is_of(const struct cc_host *h, const struct path *path);
void cc_put(struct cc_host *h);
/* May q send cost more?  If not it waits, and becomes due when it is its turn
 * and the window open.  A QP with nothing in flight may always send. */
bool cc_admit(struct ib_qp *q, uint32_t cost);
uint32_t cc_room(const struct ib_qp *q);
void cc_plan(struct ib_qp *q, uint32_t cost);
void cc_sent(struct ib_qp *q, uint32_t cost); /* of what was planned */
void cc_unplan(struct ib_qp *q);	      /* the rest is not sent */
void cc_acked(struct ib_qp *q, uint32_t cost);
void cc_forget(struct ib_qp *q, uint32_t flight); /* flight is what is left */
void cc_cut(struct cc_host *h, uint64_t now);
void cc_leave(struct ib_qp *q); /* nothing in flight, not waiting */
void cc_wake(struct cc_host *h);
void cc_answer(struct ib_qp *q); /* it is about to send, or not */

/* --- a QP ---------------------------------------------------------------- */

/* How far a requester has sent.  output() moves a copy of it and plans a packet
 * with each step; what the link takes becomes the requester's own (plan.c). */
struct req_cursor {
	uint32_t psn, max_psn; /* see below */
	uint32_t cur, fresh;
	uint32_t rd_tail; /* READs and atomics that were asked for */
	uint32_t unasked; /* packets since the last AckReq */
	int32_t burst;	  /* may be sent before there is progress */
};

/* The requester.  PSNs on their way around:
 *
 *   una ........... psn ............. max_psn
 *   |  out, wait for |  to be sent    | never sent yet
 *   |  their answers |  again         |
 *
 * Work requests: [sq.tail, fresh) have PSNs, [fresh, sq.head) have not; cur is
 * the one that psn belongs to. */
struct ib_req {
	uint32_t una;
	uint32_t asked; /* on a lane: behind the last that asked for an ACK */
	struct req_cursor at;
	uint32_t flight;	/* cost of [una, psn) */
	uint32_t planned;	/* ... of what is planned behind it */
	uint32_t want, quantum; /* cc.c: waits to send; may send */
	bool called;		/* cc.c: was woken, has not answered */
	bool implied;		/* a lost response was asked for again */
	/* READ and atomic requests in [una, psn): [rd_head, at.rd_tail). */
	struct {
		uint32_t psn, end;
		bool fresh;
	} rd[RD_MAX];
	uint32_t rd_head;
	uint8_t retry_left, rnr_left, probes;
	uint64_t timeout_at, probe_at; /* NEVER: nothing is out */
	uint64_t rnr_until;
	uint64_t srtt, rtt_at; /* rtt_at 0: nothing is being measured */
	uint32_t rtt_psn;
	/* A local error of the work request at cur, told when it is oldest. */
	bool failed;
	enum ibv_wc_status fail_status;
	enum verr fail_verr;
	/* On a lane (lane.c): */
	bool full;		/* it has no room */
	bool by_packet;		/* the one at cur: not directly, which was tried */
	uint32_t direct;	/* bytes of it that are done directly */
	uint32_t written;	/* where its last packet ends */
	uint32_t seen, seen_in; /* lane->read, lane->got when the timers were set */
};

/* An answer that is pending, in PSN order. */
struct resource {
	uint32_t psn, npkts, sent; /* [psn + sent, psn + npkts) are to go */
	uint32_t len, rkey, msn;
	uint32_t srqn; /* XRC: whose PD counts */
	uint64_t va;
	uint64_t orig; /* atomic */
	bool atomic, replay;
	bool copy; /* it may have been sent in place before */
};

/* ack.c */
struct ib_ack {
	bool due;
	uint64_t wait_until;	/* 0: it goes at once */
	struct answers answers; /* by the program */
	unsigned tried;		/* belated ACKs, to see if they are ... */
	bool understood;	/* ... since the peer sends such itself */
};

struct ib_rsp {
	uint32_t epsn, msn;
	const struct ib_op *prev; /* of the request before; NULL: none */
	uint32_t srqn;		  /* XRC: .. and the SRQ that it named */
	bool out_of_order;	  /* a gap was NAKed; until epsn arrives */
	bool healed;		  /* it has, and was not yet acknowledged */
	bool comm_est;		  /* the event was raised */
	struct target target;
	uint32_t written; /* on a lane: where the last packet ends */
	/* Pending answers, oldest first. */
	struct resource resource[RD_MAX];
	unsigned resources;
	struct ib_ack ack;
	bool nak_due;
	uint8_t nak; /* syndrome */
	uint32_t nak_psn;
	/* Results of atomics, for duplicates. */
	struct {
		uint32_t psn;
		uint64_t orig;
	} saved[RD_MAX];
	unsigned saved_n; /* so many were ever saved */
	bool cnp_due;
	uint64_t cnp_at; /* when the last one was asked for */
};

struct ib_qp {
	struct qp *qp;
	struct ib *ib;
	enum ib_service service; /* of its opcodes */
	struct cc_host *host;	 /* RC and XRC from RTR on */
	uint32_t mtu;
	uint32_t read_chunk; /* packets that one READ request asks for */
	uint32_t route_in;
	struct lane_from from;
	uint64_t tells, hears;	/* on a lane: words, but for the PSN (lane.c) */
	bool shown;		/* it has, or had, an entry in the export table */
	struct allowed allowed; /* on a lane: by the peer, to who posts */
	struct mr_found into;	/* ... the region of a receive */
	struct ib_req req;
	struct ib_rsp rsp;
	uint64_t next_at;    /* by a path's static rate: until then nothing goes out */
	struct relay *relay; /* XRC: of requests for SRQs of other processes; or NULL */
};

extern struct room_key ib_key;

static inline struct ib *ib_of(const struct core *core)
{
	return room_get(core, &ib_key);
}

static inline struct ib_qp *ib_qp(struct qp *qp)
{
	return qp->tp;
}

/* --- the NIC's own ------------------------------------------------------- */

/* What follows once the link has taken a datagram of the batch. */
struct plan {
	enum plan_kind { PLAN_REQUEST, PLAN_RESPONSE, PLAN_ACK, PLAN_NAK, PLAN_CNP } kind;
	uint32_t psn;
	uint32_t len;  /* of the packet, BTH to pad */
	uint32_t rate; /* of its path */
	union {
		struct {		      /* request */
			struct req_cursor at; /* where the cursor is then */
			uint32_t cost;
			bool fresh; /* it was not sent before */
			bool timed; /* its ACK may measure the round trip */
		};
		uint32_t sent; /* response: packets of it that are out */
		bool belated;  /* ACK: behind the request, see ack.c */
	};
};

struct ib {
	struct core *core;
	uint64_t counter[IB_COUNTERS];
	struct plan plan[BATCH_MAX]; /* parallel to batch.v */
	struct list hosts;	     /* cc_host */
	bool belated;		     /* see ib_input_all() */
	uint64_t now;		     /* of the present output() */
	struct ib_xrc xrc;
};

static inline void count(struct ib_qp *q, enum ib_counter c)
{
	q->ib->counter[c]++;
}

/* The QP fails: what is under way of it ends first. */
void ib_fail(struct ib_qp *q, bool sq_only, int event, uint64_t now)
	REQUIRES(q->qp->lock);
/* It may have failed in sq_complete() or rq_complete(): then let go of all. */
void ib_settle(struct ib_qp *q);

void ib_describe_qp(const struct qp *qp, char *buf, size_t size); /* describe.c */

/* --- datagrams (emit.c) -------------------------------------------------- */

struct emit {
	struct ib_fields f; /* pad is set by emit() */
	const struct path *path;
	const struct span *span; /* payload, or NULL */
	uint32_t off, len;
	bool copy; /* it may change no more */
};

/* Append a datagram, whose plan emitted() then is.  0; -ENOBUFS: no room; -EFAULT: the
 * payload's memory is gone. */
int emit(struct ib_qp *q, struct batch *b, struct emit *e);
static inline struct plan *emitted(const struct ib_qp *q, const struct batch *b)
{
	return &q->ib->plan[b->n - 1];
}
/* The same, or write it to the QP's lane; plan is what follows once it is sent. */
int emit_planned(struct ib_qp *q, struct batch *b, struct emit *e,
		 const struct plan *plan);

/* --- plans (plan.c) ------------------------------------------------------ */

/* What p says has been sent. */
void plan_sent(struct ib_qp *q, const struct plan *p, uint64_t now);
/* See core/transport.h. */
uint64_t ib_run(struct qp *qp, uint64_t now);
uint64_t ib_commit(struct qp *qp, unsigned first, unsigned n, uint64_t now);

/* --- requester (requester.c, retry.c) ------------------------------------ */

enum step {
	STEP_GO,   /* on with this work request */
	STEP_SENT, /* a datagram went out */
	STEP_NEXT, /* one is done without a datagram */
	STEP_WAIT, /* nothing may be sent now */
	STEP_FULL, /* the batch has to go first */
};

/* One output(): the copy of the cursor, and the memory of the work request at it. */
struct planning {
	struct ib_qp *q;
	struct batch *b;
	struct req_cursor at;
	uint64_t now;
	unsigned left; /* datagrams, or as much work */
	struct wqe_memory memory;
};

/* So many bytes count as packets in the QP's share. */
static inline void req_spend(struct planning *p, uint32_t bytes)
{
	uint32_t units = bytes / REQ_UNIT;

	p->left -= units < p->left ? units : p->left - 1;
}
/* The work request at the cursor fails once what is before it has been sent. */
enum step req_refuse(struct planning *p, enum ibv_wc_status status, enum verr verr)
	REQUIRES(p->q->qp->lock);
bool req_output(struct ib_qp *q, struct batch *b, uint64_t now) REQUIRES(q->qp->lock);
/* The work request at cur has failed here; told when it is the oldest. */
void req_error(struct ib_qp *q, enum ibv_wc_status status, enum verr verr, uint64_t now)
	REQUIRES(q->qp->lock);
void req_tell_error(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* The oldest fails, by the peer or for want of one. */
void req_fail(struct ib_qp *q, enum ibv_wc_status status, enum verr verr, uint64_t now)
	REQUIRES(q->qp->lock);
void req_reset(struct ib_qp *q, uint32_t psn);
void req_stop(struct ib_qp *q);

/* Everything before PSN to has been done by the peer: complete it.  False if
 * an answer is missing before: una stays at what is missing. */
bool req_advance(struct ib_qp *q, uint32_t to, uint64_t now) REQUIRES(q->qp->lock);
/* Send again from psn on, una <= psn <= req.psn. */
void req_rewind(struct ib_qp *q, uint32_t psn);
void req_arm(struct ib_qp *q, uint64_t now); /* something went out */
uint64_t req_run(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* One retry is used up; false: it was the last, and the QP has failed. */
bool req_retry(struct ib_qp *q, enum verr verr, uint64_t now) REQUIRES(q->qp->lock);
void rc_response(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock);

/* --- on a lane (lane.c, lane_wr.c) --------------------------------------- */

/* The packet e goes out.  0; -ENOBUFS: q waits for room; -EFAULT. */
int lane_emit(struct ib_qp *q, const struct emit *e);
/* The same for one that the requester sends. */
int lane_request(struct ib_qp *q, const struct emit *e);
/* There is no room: q waits, and its timers run. */
void lane_is_full(struct ib_qp *q, uint64_t now);
/* ... for a request. */
void lane_no_room(struct ib_qp *q);
/* The timers are set: from now on the other is to do something. */
void lane_watch(struct ib_qp *q);
/* Has it done nothing for a requester that could be why no answer comes? */
bool lane_is_silent(struct ib_qp *q);
/* Has it read all that q has written? */
bool lane_is_read(struct ib_qp *q);
/* It has something to send, and the lane does not let it. */
bool lane_waits(const struct ib_qp *q);
/* As req_run(), of a lane that is dead or a QP that is not reliable; false: neither. */
bool lane_run(struct ib_qp *q, uint64_t now, uint64_t *next) REQUIRES(q->qp->lock);
/* The path is known, or another. */
void lane_find_route(struct ib_qp *q);
/* What initiators of other processes may know of q. */
void lane_show(struct ib_qp *q);
/* They may know nothing more, but that what was executed was: before q leaves. */
void lane_hide(struct ib_qp *q);
/* A request was executed: all before rsp.epsn were.  This is its ACK, if it is answered
 * by none but that; asked: it asks for one. */
void lane_tell(struct ib_qp *q, bool asked, bool answered);
/* When what is out up to here is executed, that is to be known. */
static inline void lane_expects(struct ib_qp *q)
{
	struct qp *qp = q->qp;

	q->req.asked = q->req.at.psn;
	if (list_empty(&qp->lane_out))
		list_add_tail(&qp->lane->unanswered, &qp->lane_out);
}
/* Complete what the other says that it has executed.  False: no more than before. */
bool lane_hear(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* ... if anything of it is out. */
static inline void lane_hear_any(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	if (q->qp->lane && q->req.una != q->req.at.max_psn && q->qp->reliable)
		(void)lane_hear(q, now);
}
/* Does this packet of w ask for an ACK?  Last: of its message. */
bool lane_asks_for_ack(const struct ib_qp *q, struct req_cursor *at, const struct swqe *w,
		       bool last);
/* w, which is at the cursor and has not begun, is a SEND of one packet: STEP_SENT.
 * STEP_GO: it is something else, or for req_refuse(). */
enum step lane_send(struct planning *p, struct swqe *w) REQUIRES(p->q->qp->lock);
/* w, which is at the cursor, is done in the other's memory: STEP_NEXT if all or some of
 * it is, STEP_GO if packets have to do it. */
enum step lane_directly(struct planning *p, struct swqe *w) REQUIRES(p->q->qp->lock);
/* See core/transport.h. */
bool lane_posted(struct qp *qp, uint64_t *next);
bool lane_at_once(struct qp *qp, const struct swqe *w, const struct ibv_sge *sge);

/* --- responder (responder.c, replay.c, uc.c, ud.c) ----------------------- */

void rsp_reset(struct ib_qp *q, uint32_t epsn);
/* Of the SRQ that a request of XRC names; 0 of any other. */
static inline uint32_t rsp_srqn(const struct ib_pkt *pkt)
{
	return ib_has(pkt, IB_XRCETH) ? pkt->f.srqn : 0;
}
/* Is there anything for rsp_output()? */
static inline bool rsp_is_pending(const struct ib_qp *q)
{
	return q->rsp.resources || q->rsp.cnp_due;
}
bool rsp_output(struct ib_qp *q, struct batch *b, uint64_t now) REQUIRES(q->qp->lock);

/* pkt has the expected PSN; it is carried out here, or refused. */
void rsp_expected(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock);
/* pkt was carried out, elsewhere.  orig: an atomic's result. */
void rsp_carried(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t orig, uint64_t now)
	REQUIRES(q->qp->lock);
/* May a READ or atomic be asked for elsewhere?  dropped: it will be asked for again. */
enum refusal rsp_make_room(struct ib_qp *q, bool *dropped);
/* ACCEPTED, if the message under way goes on with pkt, or pkt begins one. */
enum refusal rsp_follows(const struct ib_qp *q, const struct ib_pkt *pkt);
/* So many PSNs does it take. */
static inline uint32_t rsp_npkts(const struct ib_qp *q, const struct ib_pkt *pkt)
{
	return pkt->op->kind == IB_READ && pkt->f.dma_len
		       ? (pkt->f.dma_len - 1) / q->mtu + 1
		       : 1;
}
/* Requests before it are missing: one NAK tells. */
void rsp_out_of_order(struct ib_qp *q);
/* There is no receive: the peer is to say it again after a while. */
void rsp_rnr(struct ib_qp *q);
/* Is SRQ srqn in another process? */
static inline bool rsp_is_abroad(const struct ib_qp *q, uint32_t srqn)
{
	return srqn && qpn_slot(srqn) != q->qp->core->slot;
}

/* --- acknowledgements (ack.c) -------------------------------------------- */

void ack_reset(struct ib_qp *q);
/* A request was carried out: does it ask for an ACK, and when is that due? */
void ack_ask(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now);
/* The program's own request goes out. */
void ack_answered(struct ib_qp *q, uint64_t now);
uint64_t ack_deadline(const struct ib_qp *q, uint64_t now);
/* Is there anything for ack_output(), now or later? */
static inline bool ack_is_pending(const struct ib_qp *q)
{
	return q->rsp.ack.due || q->rsp.nak_due;
}
/* What is due.  answer: a request goes out with it.  0 or -ENOBUFS. */
int ack_output(struct ib_qp *q, struct batch *b, bool answer, bool belated, uint64_t now);
/* Does it go behind the answer that is next? */
bool ack_goes_last(const struct ib_qp *q, const struct batch *b);
/* The datagram that p has planned is out. */
void ack_sent(struct ib_qp *q, const struct plan *p);

void rsp_cnp(struct ib_qp *q, uint64_t now); /* congestion was seen */

/* Answer the request that is expected with the NAK of that refusal; the QP fails. */
void rsp_nak(struct ib_qp *q, enum refusal why, uint64_t now) REQUIRES(q->qp->lock);

unsigned rsp_pending(const struct ib_rsp *s); /* without duplicates */
void rsp_add_pending(struct ib_qp *q, const struct resource *t);
/* The first n packets of the oldest, which begins at psn, are out. */
void rsp_sent(struct ib_qp *q, uint32_t psn, uint32_t n);
void rsp_save_atomic(struct ib_qp *q, uint32_t psn, uint64_t orig);
void rsp_duplicate(struct ib_qp *q, const struct ib_pkt *pkt);

/* UC, UD: the message is dropped.  Its receive is for the next (9.9.3, class D);
 * one from an SRQ ends in error (class E). */
void rsp_give_up(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock);
void rc_request(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock);
void rc_reserved(struct ib_qp *q, const struct bth *bth, uint64_t now)
	REQUIRES(q->qp->lock);
void uc_request(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock);
void ud_request(struct ib_qp *q, const struct dgram *d, const struct ib_pkt *pkt,
		uint64_t now) REQUIRES(q->qp->lock);

/* The length rules of 9.7.4.1.6: of a SEND's packet, of a WRITE's. */
bool rsp_length_ok(const struct ib_qp *q, const struct ib_pkt *pkt);
enum refusal rsp_send(struct ib_qp *q, const struct ib_pkt *pkt) REQUIRES(q->qp->lock);
enum refusal rsp_write(struct ib_qp *q, const struct ib_pkt *pkt) REQUIRES(q->qp->lock);
/* Complete the receive under way: its last packet was pkt. */
void rsp_complete(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock);
/* A packet of a SEND or WRITE, where nothing is to be said before it completes. */
enum refusal rsp_message(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock);
/* May it be done?  *at: the place of an atomic, or of an atomic write. */
enum refusal rsp_check_read(struct ib_qp *q, const struct ib_pkt *pkt)
	REQUIRES(q->qp->lock);
enum refusal rsp_check_atomic(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t **at)
	REQUIRES(q->qp->lock);
/* A FLUSH, which is done when it has been checked. */
enum refusal rsp_flush(struct ib_qp *q, const struct ib_pkt *pkt);
enum refusal rsp_check_atomic_write(struct ib_qp *q, const struct ib_pkt *pkt,
				    uint64_t **at) REQUIRES(q->qp->lock);
/* Done there; *orig: what stood there before. */
enum refusal rsp_atomic(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t *at,
			uint64_t *orig) REQUIRES(q->qp->lock);
/* XRC: the receive under way has gone with its SRQ, and is forgotten. */
bool rsp_lost_recv(struct ib_qp *q) REQUIRES(q->qp->lock);

#endif
