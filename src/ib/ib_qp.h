/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_qp.h - what the files of ib/ share: the two halves of a QP, the datagrams that
 * they make, and the NIC's own state.  Inside ib/ only; read docs/dev/ib.md first.
 *
 * Everything here needs the engine's turn; the state of a QP needs qp->lock as well. */
#ifndef IB_IB_QP_H
#define IB_IB_QP_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/batch.h"
#include "net/dgram.h"
#include "sys/clock.h"
#include "sys/list.h"
#include "verbs/answers.h"
#include "verbs/await.h"
#include "verbs/core.h"
#include "verbs/counters.h"
#include "verbs/exports.h"
#include "verbs/hang.h"
#include "verbs/psn.h"
#include "verbs/qp.h"
#include "verbs/room.h"
#include "verbs/source.h"
#include "verbs/target.h"
#include "verbs/timeout.h"
#include "wire/ib_hdr.h"
#include "wire/ib_pkt.h"
#include "wire/qpn.h"

struct ib;
struct ib_qp;
struct resource;
struct rsp_bytes;

enum {
	RD_MAX = 256, /* READs and atomics each way; as many duplicates */
	/* Request packets in one output(), of which one of n times REQ_PACKET bytes
	 * counts as n; and response packets */
	REQ_SHARE = 64,
	REQ_PACKET = 1024,
	RUN_MAX = 64,	 /* packets that are taken in as one run */
	HANG_DROPS = 4,	 /* QP numbers whose dropped packets are told apart */
	PACED_SHARE = 4, /* either packets, if the path has a static rate */
};

/* --- the congestion window of a destination (cc.c) -------------------------- */

struct cc_host {
	struct list node;
	const struct link *link;
	uint8_t gid[16]; /* destination, as link->dest() has it */
	uint16_t lid;
	unsigned users;
	uint32_t window, flight; /* in bytes, with CC_PACKET for each packet */
	uint32_t planned;	 /* cost of the present batch */
	uint32_t promised;	 /* to woken QPs that have not sent yet: cc_answer() */
	uint32_t grown;		 /* cost acknowledged since the window last grew */
	uint64_t cut_at;	 /* when the window was last halved */
	uint64_t moved_at;	 /* when a QP was last woken */
	struct list waiting;	 /* QPs, by q->cc_node */
};

enum {
	CC_PACKET = 768, /* the kernel's charge for one datagram */
	/* Linux gives a socket twice the 208 KiB that it may ask for, and may charge it
	 * with a quarter too much */
	CC_WINDOW_MAX = 288 << 10,
	CC_WINDOW_MIN = 8 << 10,
	CC_STILL_NS = 1000000,
	CC_BURST = REQ_SHARE * (REQ_PACKET + CC_PACKET), /* of one output(), at most */
};

struct ib_qp;

struct cc_host *cc_get(struct ib *ib, const struct path *path); /* NULL: no memory */
bool cc_is_of(const struct cc_host *h, const struct path *path);
void cc_put(struct cc_host *h);
/* May q send a packet of this cost?  If not, q waits in line and becomes due when its
 * turn comes and the window is open.  A QP with nothing in flight may always send, unless
 * it waits already; where the line has not moved for CC_STILL_NS, then, too. */
bool cc_admit(struct ib_qp *q, uint32_t cost);
/* May q have to wait behind a packet of this cost until it is acknowledged? */
bool cc_must_ask(const struct ib_qp *q, uint32_t cost);
void cc_plan(struct ib_qp *q, uint32_t cost);
void cc_sent(struct ib_qp *q, uint32_t cost); /* cost of a planned packet that was sent */
void cc_unplan(struct ib_qp *q);	      /* the rest of the plan is dropped */
void cc_acked(struct ib_qp *q, uint32_t cost);
void cc_forget(struct ib_qp *q, uint32_t flight); /* flight: what stays in flight */
void cc_cut(struct cc_host *h, uint64_t now);
void cc_leave(struct ib_qp *q); /* q has nothing in flight and waits for nothing */
void cc_wake(struct cc_host *h);
void cc_answer(struct ib_qp *q); /* a woken q sends now, or declines */

/* --- a QP ---------------------------------------------------------------- */

/* The requester.  Its numbers are PSNs.  output() moves a copy of the cursor and plans a
 * packet with each step; once the link has taken the packet, its copy becomes the
 * requester's cursor (emit.c). */
struct ib_req {
	struct send_source s;
	struct send_cursor at;
	uint32_t flight;	/* cost of [una, psn) */
	uint32_t planned;	/* cost of the packets planned behind psn */
	uint32_t want, quantum; /* cc.c: cost it waits to send; cost it may still send */
	uint32_t promised;	/* cc.c: of the quantum, while called */
	bool called;		/* cc.c: woken, and neither sent nor declined yet */
	bool implied;		/* a lost response was requested again (C9-103) */
	bool late;		/* retry.c: this process ran late, and was excused */
	/* The requests of READs and atomics; a long READ has several. */
	struct {
		uint32_t psn, end;
		bool fresh;
	} rd[RD_MAX];
	uint8_t probes;
	uint64_t timeout_at, probe_at; /* NEVER: nothing is outstanding */
	/* The link takes nothing: when it was last asked (0: it took the last packet),
	 * and for how long, ns. */
	uint64_t refused_at, stuck;
	struct hang rnr, silent;
	uint64_t srtt, rtt_at; /* ns; rtt_at 0: no measurement runs */
	uint32_t rtt_psn;
	/* Syndrome of a NAK that overtook responses which the peer had sent before; 0:
	 * none. */
	uint8_t nak;
	uint32_t nak_psn; /* the PSN in that NAK */
};

/* A pending answer.  The array of them is in PSN order. */
struct resource {
	uint32_t psn, npkts, sent; /* [psn + sent, psn + npkts) are still to be sent */
	uint32_t len, rkey, msn;
	uint32_t srqn; /* the SRQ that the request names; 0: none */
	uint64_t va;
	uint64_t orig; /* the result of an atomic */
	bool atomic, replay;
};

/* The ACK that a responder owes (ack.c). */
struct ib_ack {
	bool due;
	/* The ACK may wait for an answer until then; 0: it goes at once. */
	uint64_t wait_until;
	struct answers answers; /* how promptly the program answers */
	unsigned tried;		/* ACKs that were sent behind a request, as a trial */
	bool understood;	/* the peer sends such ACKs itself */
};

/* A message with the expected PSN has come, and its receive has not (rnr.c). */
struct ib_late {
	struct recv_wait wait;
	bool followed;	/* packets behind the message were dropped */
	uint64_t last;	/* when the peer has last sent it by itself, */
	unsigned again; /* and how often since it came first */
	bool refused;	/* RNR was said last for the message with this PSN: */
	uint32_t refused_psn;
	bool told; /* the log has been told, once for a connection */
};

struct ib_rsp {
	uint32_t epsn, msn;
	const struct ib_op *prev; /* opcode of the last request; NULL: none */
	uint32_t srqn;		  /* the SRQ that the last request named; 0: none */
	bool out_of_order;	  /* a gap was NAKed and epsn has not arrived yet */
	bool healed;		  /* the gap is closed, but not acknowledged yet */
	bool comm_est;		  /* IBV_EVENT_COMM_EST was raised */
	struct target target;
	/* Pending answers, oldest first. */
	struct resource resource[RD_MAX];
	unsigned resources;
	struct ib_ack ack;
	bool nak_due;
	uint8_t nak; /* syndrome */
	struct ib_late late;
	/* The first request with another PSN than the first that is expected. */
	bool strayed;
	uint32_t stray_psn;
	uint32_t nak_psn;
	/* Results of the last atomics, to answer duplicates with. */
	struct {
		uint32_t psn;
		uint64_t orig;
	} saved[RD_MAX];
	unsigned saved_n; /* atomics saved since the reset */
	struct hang no_recv, astray;
	bool cnp_due;
	uint64_t cnp_at; /* when the last CNP was asked for */
};

/* What a QP of a rare kind does in place of what others do, or besides.  Those know the
 * kinds only by this table, which a QP has from open() on. */
struct ib_hooks {
	/* A request has come.  True: that was all; else rc_request() goes on. */
	bool (*takes)(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now);
	/* pkt is executed next, or refused. */
	enum refusal (*aim)(struct ib_qp *q, const struct ib_pkt *pkt);
	/* As rsp_bytes(), for resource[i]; also -EAGAIN: the payload is not here yet, and
	 * the QP becomes due with it; -ENOBUFS: not yet the oldest answer's turn. */
	int (*bytes)(struct ib_qp *q, unsigned i, uint64_t now, struct rsp_bytes *out,
		     enum refusal *why);
	/* All of the oldest answer has been sent. */
	void (*sent)(struct ib_qp *q);
	/* Does an answer wait for its payload? */
	bool (*waits)(const struct ib_qp *q);
	/* As transport->run. */
	uint64_t (*run)(struct ib_qp *q, uint64_t now);
	/* The responder is reset, or the QP fails; the QP ends. */
	void (*stop)(struct ib_qp *q);
	void (*close)(struct ib_qp *q);
};

extern const struct ib_hooks xrc_hooks; /* xrc.c */

struct ib_qp {
	struct qp *qp;
	struct ib *ib;
	uint64_t *counter;	      /* of its device */
	enum ib_service service;      /* service part of the QP's opcodes */
	bool answers;		      /* takes requests */
	const struct ib_hooks *hooks; /* of a rare kind; or NULL */
	void *own;		      /* theirs */
	struct cc_host *host;	      /* its window; acknowledged QPs, from RTR on */
	struct list cc_node;	      /* in host->waiting */
	uint32_t mtu;
	struct ib_req req;
	struct ib_rsp rsp;
	uint64_t next_at;   /* static rate of the path: sends nothing before */
	uint32_t told;	    /* for ib_may_tell(): 1 << enum ib_counter */
	uint16_t told_drop; /* for ib_tells_drop(): 1 << enum refusal */
	struct kept *kept;  /* rnr.c: the packet that waits for a receive; or NULL */
};

extern struct room_key ib_key;

static inline struct ib *ib_of(const struct core *core)
{
	return room_get(core, &ib_key);
}

static inline struct ib_qp *ib_qp(struct qp *qp)
{
	return qp->tp.state;
}

/* --- the NIC's own ------------------------------------------------------- */

/* A datagram of the batch: what changes once the link has taken it. */
struct plan {
	enum plan_kind { PLAN_REQUEST, PLAN_RESPONSE, PLAN_ACK, PLAN_NAK, PLAN_CNP } kind;
	uint32_t psn;
	uint32_t len;  /* of the packet, BTH to pad */
	uint32_t rate; /* static rate of its path */
	union {
		struct {		       /* request */
			struct send_cursor at; /* the cursor behind this packet */
			uint32_t cost;
			bool fresh; /* the packet was never sent before */
			bool timed; /* its ACK may measure the round trip */
		};
		uint32_t sent; /* response: packets of it that are out, with this one */
		bool belated;  /* ACK: it goes behind the request (ack.c) */
	};
};

struct ib {
	struct core *core;
	uint64_t counter[IB_COUNTERS]; /* of packets that belong to no QP of a device */
	struct ib_counts *by_device;   /* n_by_device of them; NULL: not told apart */
	unsigned n_by_device;
	struct plan plan[BATCH_MAX]; /* parallel to batch.v */
	struct list hosts;	     /* of struct cc_host */
	bool belated;		     /* see ib_input_all() */
	uint64_t now;		     /* time of the present output() */
	uint64_t told_at;	     /* for ib_may_tell() */
	uint64_t told_drop_at;	     /* for ib_tells_drop() */
	struct hang drops[HANG_DROPS];
};

/* The counters of that device's QPs. */
uint64_t *ib_counter_of(struct ib *ib, const char *device);

static inline void count(struct ib_qp *q, enum ib_counter c)
{
	q->counter[c]++;
	q->qp->past.event[c]++;
}

/* May the log be told why a packet is dropped? Anybody may send packets, so each reason
 * is told once for each QP, and one a second at most. q NULL: there is no such QP. */
bool ib_may_tell(struct ib *ib, struct ib_qp *q, enum ib_counter why);
/* Is the log told why q drops a message that is for it? Anybody may send datagrams, and a
 * peer of UC is not held up: so the first for each reason of a QP, and of all others one
 * a second. */
bool ib_tells_drop(struct ib_qp *q, enum refusal why);

/* Puts the QP into SQE (sq_only) or ERR, after dropping what its requester has
 * outstanding.  event: the asynchronous event to raise, or -1. */
void ib_fail(struct ib_qp *q, bool sq_only, int event, uint64_t now)
	REQUIRES(q->qp->lock);
/* sq_complete() and rq_complete() may put the QP into ERR, where its CQ overruns.  Call
 * this after them: if the QP is in ERR it drops all protocol state. */
void ib_settle(struct ib_qp *q);

void ib_describe_qp(const struct qp *qp, char *buf, size_t size); /* describe.c */
void ib_describe_peer(const struct qp *qp, char *buf, size_t size);
/* Names the QP at the other end of a connected QP, for a line of the log: its number,
 * address or LID, and the process where it is one of this host. */
enum { IB_PEER_LEN = 128 };
const char *ib_peer_text(const struct ib_qp *q, char text[IB_PEER_LEN]);

/* --- datagrams (emit.c) -------------------------------------------------- */

struct emit {
	struct ib_fields f; /* pad is set by emit() */
	const struct path *path;
	const struct span *span; /* payload, or NULL */
	uint32_t off, len;
};

/* Appends a datagram to the batch; the caller then fills its plan, emitted().  Returns
 * 0, -ENOBUFS if the batch has no room, or -EFAULT if the payload's memory is gone. */
int emit(struct ib_qp *q, struct batch *b, struct emit *e);
/* Appends the packet behind the last one, which e was emitted for: since then only PSN,
 * AckReq and off have changed.  Returns as emit(). */
int emit_next(struct ib_qp *q, struct batch *b, const struct emit *e);
/* The last packet of the batch, a request, asks for an ACK after all. */
void emit_ask(struct ib_qp *q, struct batch *b);
static inline struct plan *emitted(const struct ib_qp *q, const struct batch *b)
{
	return &q->ib->plan[b->n - 1];
}
/* Appends a datagram with this plan to the batch.  Returns as emit(). */
int emit_planned(struct ib_qp *q, struct batch *b, struct emit *e,
		 const struct plan *plan);

/* Carries out p: its packet has been sent at time now. */
void plan_sent(struct ib_qp *q, const struct plan *p, uint64_t now);
/* As struct transport's run and commit (verbs/transport.h). */
uint64_t ib_run(struct qp *qp, uint64_t now);
uint64_t ib_commit(struct qp *qp, unsigned first, unsigned n, uint64_t now);

/* --- requester (requester.c, retry.c) ------------------------------------ */

enum step {
	STEP_GO,   /* go on with this work request */
	STEP_SENT, /* a datagram went out */
	STEP_NEXT, /* a work request is done without a datagram */
	STEP_WAIT, /* nothing may be sent now */
	STEP_FULL, /* the batch must be sent first */
};

/* One output(): a copy of the cursor, and the memory of the work request at it. */
struct planning {
	struct ib_qp *q;
	struct batch *b;
	struct send_cursor at;
	uint64_t now;
	unsigned left; /* packets that this output() may still send */
	struct wqe_memory memory;
	/* run: the last packet of the batch is one from the middle of the message at the
	 * cursor, as emit describes it */
	bool run;
	struct emit emit;
};

/* Fails the work request at the cursor once all packets before it have been sent:
 * STEP_FULL until then, STEP_WAIT after. */
enum step req_refuse(struct planning *p, enum ibv_wc_status status, enum verr verr)
	REQUIRES(p->q->qp->lock);
bool req_output(struct ib_qp *q, struct batch *b, uint64_t now) REQUIRES(q->qp->lock);
/* The work request at cur failed locally; completes with the error once it is the
 * oldest. */
void req_error(struct ib_qp *q, enum ibv_wc_status status, enum verr verr, uint64_t now)
	REQUIRES(q->qp->lock);
void req_tell_error(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* Completes the oldest work request with an error, and the QP fails. */
void req_fail(struct ib_qp *q, enum ibv_wc_status status, enum verr verr, uint64_t now)
	REQUIRES(q->qp->lock);
void req_reset(struct ib_qp *q, uint32_t psn);
void req_stop(struct ib_qp *q);

/* The peer has executed everything before PSN to: completes the work requests of it.
 * Returns false if the answer to an earlier READ or atomic is missing; una stays at
 * it. */
bool req_advance(struct ib_qp *q, uint32_t to, uint64_t now) REQUIRES(q->qp->lock);
/* Sends again from psn on; una <= psn <= req.at.psn. */
void req_rewind(struct ib_qp *q, uint32_t psn);
void req_arm(struct ib_qp *q, uint64_t now); /* starts the timers, if none runs */
uint64_t req_run(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock);
/* Uses up one retry.  Returns false if none was left and the QP has failed. */
bool req_retry(struct ib_qp *q, enum verr verr, uint64_t now) REQUIRES(q->qp->lock);
/* The link has taken none of q's packets.  Returns true if it has taken none for so long
 * that they will never leave. */
bool req_is_stuck(struct ib_qp *q, uint64_t now);
void rc_response(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock);

/* --- responder (responder.c, replay.c, uc.c, ud.c) ----------------------- */

void rsp_reset(struct ib_qp *q, uint32_t epsn);
/* The SRQ that a request names; 0: none. */
static inline uint32_t rsp_srqn(const struct ib_pkt *pkt)
{
	return ib_has(pkt, IB_XRCETH) ? pkt->f.srqn : 0;
}
/* Has rsp_output() anything to send? */
static inline bool rsp_is_pending(const struct ib_qp *q)
{
	return q->rsp.resources || q->rsp.cnp_due;
}
bool rsp_output(struct ib_qp *q, struct batch *b, uint64_t now) REQUIRES(q->qp->lock);

/* Executes pkt, which has the expected PSN, or refuses it. */
void rsp_expected(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock);
/* The two halves of that, for a packet that was executed elsewhere: the packet with the
 * expected PSN has arrived; it was executed, and took npkts PSNs. */
void rsp_arrived(struct ib_rsp *s);
void rsp_accept(struct ib_qp *q, const struct ib_pkt *pkt, uint32_t npkts);
/* Is there room for one more READ or atomic?  *dropped: duplicates fill the list, so the
 * request is dropped without a NAK and the peer will send it again. */
enum refusal rsp_make_room(struct ib_qp *q, bool *dropped);
/* The number of PSNs that pkt takes. */
static inline uint32_t rsp_npkts(const struct ib_qp *q, const struct ib_pkt *pkt)
{
	return pkt->op->kind == IB_READ && pkt->f.dma_len
		       ? (pkt->f.dma_len - 1) / q->mtu + 1
		       : 1;
}
/* A gap: requests before the one that came are missing.  One NAK is sent for each gap. */
void rsp_out_of_order(struct ib_qp *q);
/* No receive is posted: answers the expected request with an RNR NAK. */
void rsp_rnr(struct ib_qp *q);
/* Where the payload of a READ response lies, for its packets [first, end). */
struct rsp_bytes {
	struct span span;
	uint32_t first, end;
};
/* Finds it in this process, by the QP's PD.  Returns 0, or -EACCES with *why. */
int rsp_bytes(struct ib_qp *q, const struct resource *t, struct rsp_bytes *out,
	      enum refusal *why);

/* --- no receive (rnr.c) ---------------------------------------------------- */

/* pkt, which has the expected PSN, finds no receive: waits for one, or says RNR. */
void rnr_late(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock);
/* The packet that waited was accepted, or refused for another reason. */
void rnr_came(struct ib_qp *q, bool accepted) REQUIRES(q->qp->lock);
/* Does what is due; returns the next deadline. */
uint64_t rnr_run(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock);
void rnr_end(struct ib_qp *q); /* nothing waits any more */
/* No receive is there for pkt, which begins to wait: counts and tells that. rnr_say()
 * tells the peer when w->until has come. */
void rnr_begin(struct ib_qp *q, const struct ib_pkt *pkt, struct recv_wait *w,
	       uint64_t now);
void rnr_say(struct ib_qp *q, uint64_t now);

/* --- acknowledgements (ack.c) -------------------------------------------- */

void ack_reset(struct ib_qp *q);
/* pkt was executed: decides whether it is acknowledged, and when. */
void ack_ask(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now);
/* The program's own request goes out: it counts as the answer to the last message. */
void ack_answered(struct ib_qp *q, uint64_t now);
uint64_t ack_deadline(const struct ib_qp *q, uint64_t now);
/* Has ack_output() anything to send, now or later? */
static inline bool ack_is_pending(const struct ib_qp *q)
{
	return q->rsp.ack.due || q->rsp.nak_due;
}
/* Sends the ACK or NAK that is due.  answer: a request goes out in the same batch.
 * belated: the ACK goes behind that request.  Returns 0, -ENOBUFS or -EFAULT. */
int ack_output(struct ib_qp *q, struct batch *b, bool answer, bool belated, uint64_t now);
/* Should the ACK go behind the request that is sent next? */
bool ack_goes_last(const struct ib_qp *q, const struct batch *b);
/* The datagram of plan p has been sent. */
void ack_sent(struct ib_qp *q, const struct plan *p);

void rsp_cnp(struct ib_qp *q, uint64_t now); /* congestion was seen: sends a CNP */

/* Answers the expected request with the NAK for this refusal; the QP fails. */
void rsp_nak(struct ib_qp *q, enum refusal why, uint64_t now) REQUIRES(q->qp->lock);

unsigned rsp_pending(const struct ib_rsp *s); /* pending answers, without duplicates */
void rsp_add_pending(struct ib_qp *q, const struct resource *t);
/* The first n packets of the oldest answer, which begins at psn, have been sent. */
void rsp_sent(struct ib_qp *q, uint32_t psn, uint32_t n);
void rsp_save_atomic(struct ib_qp *q, uint32_t psn, uint64_t orig);
void rsp_duplicate(struct ib_qp *q, const struct ib_pkt *pkt);

/* UC and UD drop the message.  Its receive serves the next message (9.9.3, class D); a
 * receive from an SRQ completes in error (class E). */
void rsp_give_up(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock);
void rc_request(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock);
/* The n packets of v are from the middle of a WRITE, with consecutive PSNs; pkt is the
 * first, and says whether any of them asks for an ACK.  n <= RUN_MAX.  Returns how many
 * were executed; the next one is for rc_request(). */
unsigned rc_write_run(struct ib_qp *q, const struct ib_pkt *pkt, const struct dgram *v,
		      unsigned n, uint64_t now) REQUIRES(q->qp->lock);
void rc_reserved(struct ib_qp *q, const struct bth *bth, uint64_t now)
	REQUIRES(q->qp->lock);
void uc_request(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock);
void ud_request(struct ib_qp *q, const struct dgram *d, const struct ib_pkt *pkt,
		uint64_t now) REQUIRES(q->qp->lock);

/* rsp_length_ok() checks a packet's payload length (9.7.4.1.6).  rsp_send() and
 * rsp_write() check and place one packet of a SEND or a WRITE. */
bool rsp_length_ok(const struct ib_qp *q, const struct ib_pkt *pkt);
enum refusal rsp_send(struct ib_qp *q, const struct ib_pkt *pkt) REQUIRES(q->qp->lock);
enum refusal rsp_write(struct ib_qp *q, const struct ib_pkt *pkt) REQUIRES(q->qp->lock);
/* Completes the receive under way; pkt was the last packet of its message. */
void rsp_complete(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock);
/* Executes a packet of a SEND or WRITE, and completes the message if pkt is its last. */
enum refusal rsp_message(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock);
/* May the request be executed?  *at: the host address of an atomic or an atomic write. */
enum refusal rsp_check_read(struct ib_qp *q, const struct ib_pkt *pkt)
	REQUIRES(q->qp->lock);
enum refusal rsp_check_atomic(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t **at)
	REQUIRES(q->qp->lock);
/* A FLUSH, which is done when it has been checked. */
enum refusal rsp_flush(struct ib_qp *q, const struct ib_pkt *pkt);
enum refusal rsp_check_atomic_write(struct ib_qp *q, const struct ib_pkt *pkt,
				    uint64_t **at) REQUIRES(q->qp->lock);
/* Executes the atomic at at; *orig is the value that was there before. */
enum refusal rsp_atomic(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t *at,
			uint64_t *orig) REQUIRES(q->qp->lock);

#endif
