/* SPDX-License-Identifier: BSD-2-Clause */
/* qp.h - queue pairs: work queues, attributes, completion and failure.
 *
 * Lock order, outermost first: core->turn, qp->lock, srq->lock, cq->lock, the event
 * queue's lock. A thread holds at most one lock of each kind.
 */
#ifndef VERBS_QP_H
#define VERBS_QP_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/heap.h"
#include "sys/lock.h"
#include "verbs/core.h"
#include "verbs/counters.h"
#include "verbs/cq.h"
#include "verbs/flush.h"
#include "verbs/path.h"
#include "verbs/rq.h"
#include "verbs/verr.h"

struct opened;
struct qp_kind;
struct srq_hooks;
struct tm_list;
struct tm_tag;
struct transport;
struct xrcd;

#define QKEY_OWN 0x80000000u /* IBTA 10.2.5: the QP's own is sent */

enum { SWQE_OWN = 1 << 7 }; /* swqe.flags: the QP's own request: its hooks' */

struct swqe {
	uint64_t wr_id;
	uint32_t length; /* payload bytes, sum of the SGEs */
	uint16_t num_sge;
	uint8_t opcode; /* enum ibv_wr_opcode */
	uint8_t flags;	/* enum ibv_send_flags (SIGNALED set by sq_sig_all too),
			 * SWQE_OWN */
	uint32_t imm;	/* immediate in network order, rkey to invalidate, or new
			 * rkey of a bind */
	uint32_t rkey;	/* remote; of a bind: the region's */
	uint64_t remote_addr;
	/* The source's, from when the request begins (verbs/source.h): */
	uint32_t psn, npkts; /* numbers [psn, psn + npkts) */
	uint32_t done;	     /* READ, atomic: of so many the answer was placed */
	union {
		struct {
			union {
				struct {
					uint64_t compare_add, swap;
				} atomic;
				struct {
					uint32_t feth;	 /* verbs/flush.h */
					uint32_t length; /* of the range */
				} flush;
				/* READ: packets of response that one request asks
				 * for; the transport's, from when it begins */
				uint32_t chunk;
			};
			uint32_t srqn; /* the SRQ at the target, if it names one */
		};
		struct {
			struct path path;
			uint32_t qpn, qkey;
		} ud;
		struct {
			uint32_t handle; /* of the window */
			enum ibv_mw_type type;
			struct ibv_mw_bind_info info;
		} bind;
	};
};

struct sq {
	struct pd *in; /* PD whose allocator gave the ring: verbs/ring.h */
	uint32_t size; /* power of two */
	uint32_t cap, max_sge, max_inline;
	uint32_t head; /* next to be posted; free-running */
	uint32_t tail; /* oldest not completed; free-running */
	/* Requests that are completed since the last completion the program got of
	 * them: the next one holds their places, too. */
	uint32_t uncovered;
	/* Places whose completions the program has, free-running: head - returned are
	 * occupied. Written under send_cq->lock (docs/dev/queues.md). */
	_Atomic uint32_t returned;
	/* For the posting thread, with or without the lock: verbs/post_build.c. */
	uint32_t draft;	     /* one past the last draft; head if there is none */
	uint32_t room;	     /* limit for drafts */
	struct swqe *wqe;    /* [size] */
	struct ibv_sge *sge; /* [size * max_sge] */
	uint8_t *inl;	     /* [size * max_inline]; the one SGE of an inline WQE
			      * points here, its lkey is not checked */
};

/* Each of these structs is the part of a QP that belongs to one owner, which the comment
 * above it names: what others read or change of it is seen by its name. */

/* The state SQD */
struct qp_sqd {
	bool draining;
	bool notify; /* when the queue has drained */
};

/* The receive that a message has taken, and waiting for one */
struct qp_recv {
	bool held;     /* a receive was taken and is not complete */
	bool no_place; /* it came from no queue, and has no place in one */
	bool awaited;  /* verbs/await.h; not with an SRQ */
	bool last_wqe; /* IBV_EVENT_QP_LAST_WQE_REACHED raised */
	uint64_t held_wr_id;
	uint32_t srqs;	  /* receives of an SRQ that were completed; free-running */
	struct list node; /* in srq->awaiting, under srq->lock */
};

/* The thread that builds requests by ibv_wr_* (verbs/post_build.c) */
struct qp_builder {
	bool active;
	const void *thread; /* its inside_calls (sys/inside.h) */
	unsigned waiters;   /* threads that wait for `active` to clear */
	struct lock_cond done;
	int err; /* first error of the drafts */
};

/* Requests by transport->at_once(); and what went out and came in otherwise: packets of
 * RoCE with their bytes from the BTH on, segments in shared memory with their payload,
 * FPDUs with the bytes of TCP. */
struct traffic {
	uint64_t done, done_bytes;
	uint64_t sent, sent_bytes, got, got_bytes;
};

static inline void traffic_add(struct traffic *to, const struct traffic *t)
{
	to->done += t->done;
	to->done_bytes += t->done_bytes;
	to->sent += t->sent;
	to->sent_bytes += t->sent_bytes;
	to->got += t->got;
	to->got_bytes += t->got_bytes;
}

/* The transport */
struct qp_tp {
	void *state;
	/* Set by the transport when transport->at_once() may succeed. */
	atomic_bool at_once;
	/* Guarded by the turn or the lock of the QP that guards its sending and
	 * receiving. A QP that leaves its peer (shm/) moves it to qp->past. */
	struct traffic traffic;
};

/* What the QP has done, for those who look (driver/dump_write.c). */
struct qp_past {
	struct traffic traffic;
	uint64_t copied, copied_bytes; /* memory of the peer, by the kernel */
	uint64_t event[IB_COUNTERS];   /* as counter[], of this QP */
	/* Indices of the queues with 64 bits, brought up to date by each look. */
	uint64_t posted, completed, received;
	uint64_t posted_before; /* until the QP last left a peer (shm/peers.h) */
};

/* The engine's schedule (verbs/due.h) */
struct qp_sched {
	atomic_bool due;	/* in core->due or core->taken */
	struct qp *below;	/* next in that list */
	struct heap_node timer; /* under the turn */
	bool planned;		/* has datagrams in the batch; under the turn */
	uint64_t full_until;	/* a pipe was full until then; under the turn */
	uint32_t asked;		/* sq.head when output() was last asked; under the turn */
};

/* Tag matching (verbs/tm.h) */
struct qp_tm {
	struct tm_list *list; /* the SRQ's */
	struct tm_tag *tag;   /* the rendezvous being received, or NULL */
	struct list rndv;     /* rendezvous that wait for their READ or FIN */
	unsigned own;	      /* requests with SWQE_OWN in sq */
	/* Contents of the completion of the message that is being received; opcode 0: as
	 * without tag matching. */
	struct {
		uint8_t opcode, flags;
		uint32_t priv;
		uint64_t tag;
	} found;
};

/* XRC (verbs/xrc.h, verbs/shared.h, verbs/opened.h) */
struct qp_xrc {
	struct xrcd *domain; /* of a target QP; else NULL */
	struct list node;    /* of a stand-in */
	/* A target QP (verbs/shared.h), under the turn: */
	struct list openers;
	bool orphaned;	 /* the creator's handle is destroyed, openers remain */
	bool destroying; /* waits for acknowledged events */
	/* Not NULL: this is not a QP but an opened handle (verbs/opened.h). */
	struct opened *opened;
};

struct qp {
	struct live live;
	union {
		struct ibv_qp_ex ex; /* an ibv_qp is its head */
		struct newer_qp_ex newer;
	};
	struct core *core;
	struct context *ctx;
	struct device *dev;
	struct pd *pd; /* the proper PD (verbs/pd.h) */
	struct pd *in; /* the PD that the program named */
	struct cq *send_cq, *recv_cq;
	struct srq *srq;	       /* or NULL */
	const struct srq_hooks *hooks; /* the SRQ's, or NULL */
	uint32_t qpn;
	enum ibv_qp_type type;
	const struct qp_kind *kind; /* of the type */
	unsigned wr_type;	    /* verbs/wr_op.h: type, or WR_TYPE_IWARP */
	bool reliable;		    /* acknowledged */
	bool sig_all;
	uint32_t create_flags; /* IBV_QP_CREATE_...; those of a work queue change with the
				* lock held */
	uint64_t send_ops;     /* send_ops_flags given at creation */

	bool stays;	/* its memory is not freed */
	unsigned users; /* objects that name it; under the turn */
	/* Tells of an event of the QP, in place of the program of ctx; or NULL. */
	void (*raise)(struct qp *qp, enum ibv_event_type type);

	struct lock lock; /* guards the fields below */
	enum ibv_qp_state state;
	struct ibv_qp_attr attr;      /* as set by modify */
	struct ibv_qp_init_attr init; /* as created, caps as granted */
	struct path path;	      /* connected QP: to the peer */
	bool same_host;		      /* the peer is on this host */
	struct sq sq;
	struct rq rq; /* unused with an SRQ */
	struct qp_sqd sqd;
	struct qp_recv recv;
	struct qp_tm tm;
	struct qp_builder builder;

	const struct transport *transport;
	struct qp_tp tp;
	uint64_t *
		counter; /* its device's (verbs/counters.h), under the turn; ib sets it */
	struct qp_past past;

	struct qp_sched sched;
	struct qp_xrc xrc;
};

/* Indices of queues have 32 bits; who looks often enough sees 64. Turn held. */
static inline uint64_t qp_follow(uint64_t *seen, uint32_t index)
{
	*seen += (uint32_t)(index - (uint32_t)*seen);
	return *seen;
}

/* How many requests were posted to the send queue; turn held. */
static inline uint64_t qp_posted(struct qp *qp)
{
	return qp_follow(&qp->past.posted,
			 __atomic_load_n(&qp->sq.head, __ATOMIC_RELAXED));
}

struct qp *qp_of(struct ibv_qp *ibv);
struct qp *qp_of_ex(struct ibv_qp_ex *ibv);

/* Creates a QP and raises attr's caps to what was granted; attr's objects belong to
 * ctx. Returns 0, -EINVAL, -ENOMEM, -EOPNOTSUPP or -EIO. */
int qp_create(struct context *ctx, struct ibv_qp_init_attr_ex *attr,
	      const struct transport *transport, struct qp **out);
/* Destroys the QP; waits until its events are acknowledged. Returns 0, or -EBUSY if it
 * is in a multicast group. Its number is used again only after all other free numbers,
 * at least QPN_REST. */
int qp_destroy(struct qp *qp);
/* Modifies the QP, wholly or not at all. Returns 0, -EINVAL, -EOPNOTSUPP, -EIO, or the
 * transport's error. The caller then makes the QP due. */
int qp_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask, uint64_t now);
int qp_query(struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);

/* Post a chain of requests; *bad is the first refused one. Return 0, 1 (all is done:
 * the QP need not be made due), -EINVAL, -ENOMEM or -EIO. In ERR posts are accepted
 * and flushed. Sends in RESET, INIT and RTR, and receives in RESET, give -EINVAL. The
 * caller then makes the QP due. */
int qp_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* The same in a signal handler that has interrupted another call: queues the list for the
 * engine. -EDEADLK: the call that it has interrupted may hold what that takes. */
int qp_post_nested(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* In such a handler, too. Returns as qp_post_send(), but 1: a message waited for the
 * receive, and the QP is due. */
int qp_post_recv(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* Counts an event of the QP, for it and for its device. */
static inline void qp_count(struct qp *qp, enum ib_counter c, uint32_t n)
{
	qp->counter[c] += n;
	qp->past.event[c] += n;
}

/* Returns the P_Key of the QP's packets. */
uint16_t qp_pkey(const struct qp *qp);
/* Returns the index in the port's table that matches the P_Key of a packet for the QP;
 * -1: another partition (9.6.1.1, 10.9.3). */
int qp_hears(const struct qp *qp, uint16_t pkey);

/* Has the QP receives, of its own or of an SRQ that it names? Otherwise it borrows those
 * of the SRQ that a request names (then pd, srq and recv_cq are that SRQ's), or takes no
 * messages. */
static inline bool qp_has_receives(const struct qp *qp)
{
	return qp->init.recv_cq;
}
/* Do incoming messages take receives in the QP's state? */
bool qp_receives(const struct qp *qp) REQUIRES(qp->lock);
/* Initialises the lock and the lists of a new QP. */
void qp_init_nodes(struct qp *qp);

/* Gives the QP another transport, before anything was sent or received. Returns 0, or the
 * error of `to` when it opens. Turn held. */
int qp_change_transport(struct qp *qp, const struct transport *to) REQUIRES(qp->lock);
/* Takes the transport through the states that the QP has already passed. */
int qp_enter_again(struct qp *qp, uint64_t now) REQUIRES(qp->lock);

/* Returns the QP with this number, or NULL. */
struct qp *qp_find(struct core *core, uint32_t qpn) REQUIRES(core->turn);

/* Attach the QP to a group and detach it. Return 0, -errno, or 1 if the QP to be
 * attached is already in the group. */
int mcast_attach(struct qp *qp, const union ibv_gid *gid);
int mcast_detach(struct qp *qp, const union ibv_gid *gid);
/* Detaches the QP from one of its groups and sets *gid to it. False: the QP is in no
 * group. */
bool mcast_leave(struct qp *qp, union ibv_gid *gid);
/* Calls fn for every QP of the group gid. */
void mcast_for_each(struct core *core, const uint8_t gid[16],
		    void (*fn)(struct qp *qp, void *arg), void *arg) REQUIRES(core->turn);

/* For verbs/opened.h: makes the program's handle of an opened QP. It is in no table and
 * has no transport; posts find it in RESET. Returns NULL without memory. */
struct qp *qp_make_handle(struct context *ctx, const struct ibv_qp_init_attr_ex *a,
			  uint32_t qpn);
void qp_free_handle(struct qp *qp);
/* For verbs/shared.h: ends a QP of which no program has a handle. */
void qp_end(struct qp *qp) REQUIRES(qp->core->turn);

/* --- for transports; qp->lock is held ------------------------------------ */

/* Tells clang's analysis that qp->lock is held: for functions called through a table
 * (verbs/transport.h), and where the QP has two names. */
static inline void qp_is_held(const struct qp *qp) ASSERTS(qp->lock)
{
	(void)qp;
}

/* qp_modify() for a caller that holds the turn and the lock. */
int qp_modify_held(struct qp *qp, const struct ibv_qp_attr *attr, int mask, uint64_t now)
	REQUIRES(qp->core->turn, qp->lock);

static inline struct swqe *sq_at(struct sq *sq, uint32_t index)
{
	return &sq->wqe[index & (sq->size - 1)];
}

static inline struct ibv_sge *sq_sges(struct sq *sq, uint32_t index)
{
	return &sq->sge[(index & (sq->size - 1)) * sq->max_sge];
}

/* Returns the index at which the queue is full. */
static inline uint32_t sq_end(const struct sq *sq)
{
	return atomic_load_explicit(&sq->returned, memory_order_relaxed) + sq->cap;
}

/* Returns the places that the completion of one more request holds. */
static inline uint16_t sq_cover(struct sq *sq)
{
	const uint32_t places = sq->uncovered + 1;

	sq->uncovered = 0;
	return (uint16_t)places;
}

/* Completes the oldest work request, with a completion if it was signalled or failed.
 * verr: the reason, 0 on success. After a failure the transport calls qp_fail(). If
 * the CQ is full this fails the QP: look at qp->state. */
void sq_complete(struct qp *qp, enum ibv_wc_status status, enum verr verr, uint64_t now)
	REQUIRES(qp->lock);
/* For at_once(): counts n requests as posted to the empty queue and completed. */
void sq_count_at_once(struct qp *qp, uint32_t n, uint64_t bytes) REQUIRES(qp->lock);
/* For at_once(): adds the completion of a request that succeeded, if the CQ takes it
 * without more ado. Returns false otherwise: call sq_end_at_once(). */
static inline bool sq_told_at_once(struct qp *qp, const struct ibv_send_wr *wr,
				   enum ibv_wc_opcode opcode, uint32_t byte_len)
	REQUIRES(qp->lock)
{
	struct cq *cq = qp->send_cq;
	struct cqe *to = cq->stamped ? NULL : cq_begin(cq);

	if (!to)
		return false;
	*to = (struct cqe){
		.wr_id = wr->wr_id,
		.qp_num = qp->qpn,
		.opcode = opcode,
		.byte_len = byte_len,
		.places = sq_cover(&qp->sq),
		.queue = &qp->sq.returned,
	};
	cq_end(cq, false);
	return true;
}
/* Completes a request of len bytes that at_once() has executed and counted. May fail the
 * QP (CQ full). */
void sq_end_at_once(struct qp *qp, const struct ibv_send_wr *wr, uint32_t len,
		    enum ibv_wc_status status, enum verr verr, uint64_t now)
	REQUIRES(qp->lock);
/* For at_once(): posts a request of one SGE that it has begun. */
void sq_post_begun(struct qp *qp, const struct ibv_send_wr *wr) REQUIRES(qp->lock);

/* Takes the next receive, from the QP or its SRQ. False: there is none, or the QP does
 * not receive. A QP holds at most one, until rq_complete(). qp_fail() flushes a held
 * receive, so the transport just forgets it. */
bool qp_pop_recv(struct qp *qp, struct rwqe *out) REQUIRES(qp->lock);
/* Marks a receive that was taken by other means as held. no_place: from no queue. */
void qp_hold_recv(struct qp *qp, uint64_t wr_id, bool no_place) REQUIRES(qp->lock);

/* Completes the receive taken by qp_pop_recv(). *cqe: all fields but wr_id and qp_num.
 * Does nothing if the receive was flushed meanwhile; may fail the QP (CQ full). */
void rq_complete(struct qp *qp, const struct rwqe *w, struct cqe *cqe, bool solicited)
	REQUIRES(qp->lock);

/* Adds the completion of a receive to the CQ. May fail the QP (CQ full). */
void rq_push(struct qp *qp, const struct cqe *cqe, bool solicited) REQUIRES(qp->lock);

/* Moves the QP to ERR (SQE for UD and UC send errors, if sq_only) and flushes: all
 * posted requests complete with WR_FLUSH_ERR. event: also raised, or -1. Does not call
 * transport->enter(); in ERR already, nothing happens. */
void qp_fail(struct qp *qp, bool sq_only, int event, uint64_t now) REQUIRES(qp->lock);
/* Raises an event of the QP, at each of its handles. */
void qp_raise(struct qp *qp, enum ibv_event_type type);

/* In SQD: everything that was sent is acknowledged. */
void qp_drained(struct qp *qp) REQUIRES(qp->lock);

#endif
