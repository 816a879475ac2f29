/* SPDX-License-Identifier: BSD-2-Clause */
/* qp.h - queue pairs: work queues, attributes, completion and failure.
 *
 * Locks, outermost first: core->turn, qp->lock, srq->lock, cq->lock, event
 * queue.  A thread holds one lock of a kind at a time.
 */
#ifndef CORE_QP_H
#define CORE_QP_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "core/cq.h"
#include "core/flush.h"
#include "core/path.h"
#include "core/rq.h"
#include "core/verr.h"
#include "link/lane.h"
#include "sys/heap.h"
#include "sys/lock.h"

struct opened;
struct tm_list;
struct tm_tag;
struct transport;
struct xrcd;

#define QKEY_OWN 0x80000000u /* IBTA 10.2.5: the QP's own is sent */

enum { SWQE_OWN = 1 << 7 }; /* swqe.flags: the QP's own request (core/tm.h) */

struct swqe {
	uint64_t wr_id;
	uint32_t length; /* payload bytes, all SGEs */
	uint16_t num_sge;
	uint8_t opcode; /* enum ibv_wr_opcode */
	uint8_t flags;	/* enum ibv_send_flags; SIGNALED set
			 * by sq_sig_all too; SWQE_OWN */
	uint32_t imm;	/* immediate (as it lies), rkey to
			 * invalidate, or new rkey of a bind */
	uint32_t rkey;	/* remote; of a bind: the region's */
	uint64_t remote_addr;
	/* The transport's, from its first packet on: */
	uint32_t psn, npkts; /* PSNs [psn, psn + npkts) */
	uint32_t done;	     /* READ: packets of its answer
			      * that have arrived */
	uint8_t state;	     /* the transport's own */
	union {
		struct {
			union {
				struct {
					uint64_t compare_add, swap;
				} atomic;
				struct {
					uint32_t feth;	 /* core/flush.h */
					uint32_t length; /* of the range */
				} flush;
			};
			uint32_t srqn; /* XRC: of the target */
		};
		struct {
			struct path path;
			uint32_t qpn, qkey;
		} ud;
		struct {
			uint32_t old_rkey;
			enum ibv_mw_type type;
			struct ibv_mw_bind_info info;
		} bind;
	};
};

struct sq {
	struct pd *in; /* whose memory the ring is: core/ring.h */
	uint32_t size; /* power of two */
	uint32_t cap, max_sge, max_inline;
	uint32_t head; /* next to be posted */
	uint32_t tail; /* oldest not completed; free-running */
	/* The poster's, with or without the lock: see core/post_build.c. */
	uint32_t draft;	     /* behind the last draft; else head */
	uint32_t room;	     /* drafts end here */
	struct swqe *wqe;    /* [size] */
	struct ibv_sge *sge; /* [size * max_sge] */
	uint8_t *inl;	     /* [size * max_inline]; an inline WQE
			      * has one SGE here, lkey unchecked */
};

struct qp {
	struct live live;
	struct ibv_qp_ex ex;   /* an ibv_qp is its head */
	wr_flush_fn *wr_flush; /* the next field of a newer ibv_qp_ex */
	struct core *core;
	struct context *ctx;
	struct device *dev;
	struct pd *pd; /* proper */
	struct pd *in; /* as it was named */
	struct cq *send_cq, *recv_cq;
	struct srq *srq;    /* or NULL */
	struct tm_list *tm; /* the SRQ's, if it matches tags; else NULL */
	struct xrcd *xrcd;  /* XRC target: pd, recv_cq and srq are what it borrows
			     * of the latest request's SRQ (core/xrc.h); else NULL */
	uint32_t qpn;
	enum ibv_qp_type type;
	unsigned wr_type; /* core/wr_op.h: type, or iWARP's */
	bool reliable;	  /* acknowledged: RC, XRC */
	bool sig_all;
	uint64_t send_ops; /* ibv_wr_*: which were asked for */

	unsigned flows;	   /* rules of what it receives; under the turn */
	struct ibv_wq *wq; /* whose receives it is; else NULL (packet/rss.h) */

	struct lock lock; /* all that follows */
	enum ibv_qp_state state;
	struct ibv_qp_attr attr;      /* as set by modify */
	struct ibv_qp_init_attr init; /* as created, caps as granted */
	struct path path;	      /* connected: to the peer */
	bool same_host;		      /* ... and it is of this host */
	bool admitted;		      /* lane_wait is in lane->admitted */
	struct lane *lane; /* connected: in place of path.link; or NULL (core/lane.c) */
	struct list lane_node, lane_wait, lane_out; /* in its lists; under the turn */
	uint64_t done_at_once, bytes_at_once;	    /* by who posted: at_once() */
	struct sq sq;
	struct rq rq;		       /* unused with an SRQ */
	bool draining, drained_notify; /* SQD: event when sent all */
	bool last_wqe;		       /* IBV_EVENT_QP_LAST_WQE_REACHED raised */
	bool held;		       /* qp_pop_recv()ed, not completed */
	uint64_t held_wr_id;
	struct tm_tag *tm_tag;	  /* the rendezvous that is coming in, or NULL */
	struct list rndv;	  /* those that wait to be fetched, or for their FIN */
	unsigned tm_own;	  /* requests with SWQE_OWN in sq */
	bool building;		  /* by ibv_wr_*, in some thread */
	unsigned posters_waiting; /* ... for that to end */
	struct lock_cond built;
	int wr_err; /* ibv_wr_*: first error of the drafts;
		     * the builder's */

	const struct transport *transport;
	void *tp; /* the transport's state */
	/* It may be worth while to ask for at_once(): the transport says so. */
	atomic_bool at_once;

	atomic_bool due;	/* in core->due */
	struct qp *due_link;	/* next below it in the stack */
	struct qp *due_next;	/* next in due_take()'s list */
	struct heap_node timer; /* under the turn: the engine's */
	bool planned;		/* likewise: it has a part of the batch */
	uint64_t full_until;	/* likewise: a pipe had no room for it */
	struct list cc_node;	/* ib: waiting for its peer's window */
	struct list xrc_node;	/* of a stand-in: core/xrc.h */
	/* A target QP of XRC (core/shared.h), under the turn: */
	struct list openers;
	bool left;    /* the creator's handle is destroyed, the openers' are not */
	bool leaving; /* ... and waits for acknowledgements */
	bool stays;   /* as its context did when that was closed */
	/* A handle of such a QP, and not a QP itself (core/opened.h); else NULL. */
	struct opened *opened;
};

struct qp *qp_of(struct ibv_qp *ibv);
struct qp *qp_of_ex(struct ibv_qp_ex *ibv);

/* attr without what comp_mask does not name and what QPs of its type have none of: those
 * fields are not looked at. */
struct ibv_qp_init_attr_ex qp_proper_attr(const struct ibv_qp_init_attr_ex *attr);
/* attr's caps are raised to what was granted; its objects are ctx's.  -EINVAL, -ENOMEM,
 * -EOPNOTSUPP, -EIO. */
int qp_create(struct context *ctx, struct ibv_qp_init_attr_ex *attr,
	      const struct transport *transport, struct qp **out);
/* Waits until its events are acknowledged.  0 or -EBUSY: in a multicast group.
 * Its number is given again after all others that are free, at least QPN_REST. */
int qp_destroy(struct qp *qp);
/* All or nothing.  0, -EINVAL, -EOPNOTSUPP, -EIO, or what the transport says.
 * The caller then makes the QP due. */
int qp_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask, uint64_t now);
int qp_query(struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);

/* Post a chain; *bad is the first that was refused.  0, -EINVAL, -ENOMEM, -EIO; 1: all
 * is done, so that the QP need not be made due.
 * In ERR posts are accepted and flushed; in RESET, INIT, RTR sends give
 * -EINVAL, and in RESET receives do.  The caller then makes the QP due. */
int qp_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int qp_post_recv(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* The P_Key of its packets on that path: the QP's own, but QP1's messages have each one
 * of the port's table. */
uint16_t qp_pkey_on(const struct qp *qp, const struct path *path);
/* Where in the port's table is what matches the P_Key of a packet for the QP?  -1: it is
 * of another partition (9.6.1.1, 10.9.3). */
int qp_hears(const struct qp *qp, uint16_t pkey);

/* Do messages that come in take receives? */
bool qp_receives(const struct qp *qp) REQUIRES(qp->lock);
/* The lock and the lists of a QP that nobody else knows yet. */
void qp_init_nodes(struct qp *qp);

/* The QP is to take this lane, or none.  Turn held. */
void qp_join_lane(struct qp *qp, struct lane *l);
void qp_leave_lane(struct qp *qp);
/* It has no room: the QP is due when there is some.  served: it has used of the room that
 * there was last, so others come before it.  Turn held. */
void qp_wait_for_lane(struct qp *qp, bool served);
/* It waits no more. */
void qp_leave_line(struct qp *qp);
/* The QP is to put something out.  False: others were admitted before it, and it is due
 * when they have gone.  (exit() passes over QPs that are locked.) */
bool qp_may_go(struct qp *qp);
/* The lane has room: all that wait are admitted, and due one after the other. */
void qp_admit_all(struct core *core, struct lane *l);
static inline bool qp_waits_for_lane(const struct qp *qp)
{
	return !list_empty(&qp->lane_wait);
}

/* The QP that a packet is for, or NULL. */
struct qp *qp_find(struct core *core, uint32_t qpn) REQUIRES(core->turn);

/* 0, 1: it was there already, or -errno. */
int mcast_attach(struct qp *qp, const union ibv_gid *gid);
int mcast_detach(struct qp *qp, const union ibv_gid *gid);
/* Detached from one of its groups, which is *gid now; false: it is in none. */
bool mcast_leave(struct qp *qp, union ibv_gid *gid);
/* Calls fn for every QP of the group gid. */
void mcast_for_each(struct core *core, const uint8_t gid[16],
		    void (*fn)(struct qp *qp, void *arg), void *arg) REQUIRES(core->turn);

/* For core/opened.h: what a program holds of a QP that it has opened.  It is in no table
 * and has no transport; posts find it in RESET.  NULL: no memory. */
struct qp *qp_make_handle(struct context *ctx, const struct ibv_qp_open_attr *attr);
void qp_free_handle(struct qp *qp);
/* For core/shared.h: the QP has no handle any more. */
void qp_end_left(struct qp *qp) REQUIRES(qp->core->turn);

/* QP1 of a link, for core/qp1.h: it is in no table.  0 or -errno. */
int qp_make_gsi(struct context *ctx, struct ibv_qp_init_attr_ex *attr,
		const struct transport *transport, struct qp **out)
	REQUIRES(ctx->core->turn);
void qp_free_gsi(struct qp *qp) REQUIRES(qp->core->turn);

/* --- for transports; qp->lock is held ------------------------------------ */

/* It is, though clang cannot see that: in what is called through a table
 * (core/transport.h), and where it has the QP by two names. */
static inline void qp_is_held(const struct qp *qp) ASSERTS(qp->lock)
{
	(void)qp;
}

/* qp_modify() by who has the turn and the lock. */
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

/* Complete the oldest work request: a completion if it was signalled or
 * failed.  verr says why (0 on success).  After a failure the transport calls
 * qp_fail().  Where the CQ is full the QP fails in here: look at qp->state. */
void sq_complete(struct qp *qp, enum ibv_wc_status status, enum verr verr, uint64_t now)
	REQUIRES(qp->lock);
/* The same of w, which at_once() has done: it is posted, to an empty queue, and
 * completed, with success or without. */
void sq_complete_at_once(struct qp *qp, const struct swqe *w) REQUIRES(qp->lock);
void sq_fail_at_once(struct qp *qp, const struct swqe *w, enum ibv_wc_status status,
		     enum verr verr, uint64_t now) REQUIRES(qp->lock);

/* Take the next receive, the QP's own or the SRQ's.  False: none, or the QP
 * does not receive.  A QP holds one at a time, until rq_complete(); one that
 * is held when the QP fails is flushed by qp_fail(), so just forget it. */
bool qp_pop_recv(struct qp *qp, struct rwqe *out) REQUIRES(qp->lock);
/* A receive that was taken in another way is the one that is held. */
void qp_hold_recv(struct qp *qp, uint64_t wr_id) REQUIRES(qp->lock);

/* Complete the one taken with qp_pop_recv().  *cqe: all but wr_id and qp_num.
 * Does nothing if it was flushed meanwhile; may fail the QP (CQ full). */
void rq_complete(struct qp *qp, const struct rwqe *w, struct cqe *cqe, bool solicited)
	REQUIRES(qp->lock);

/* The oldest receive of its own, which nobody holds and whose memory has len bytes of a
 * SEND, is taken and complete.  May fail the QP (CQ full). */
void rq_complete_first(struct qp *qp, uint32_t len, bool solicited, uint64_t now)
	REQUIRES(qp->lock);

/* Move to ERR (SQE for UD and UC send errors, if sq_only) and flush: every
 * posted request completes with WR_FLUSH_ERR.  event: raised too, or -1.
 * transport->enter() is not called; in ERR already, nothing happens. */
void qp_fail(struct qp *qp, bool sq_only, int event, uint64_t now) REQUIRES(qp->lock);
/* The program hears of an event of it, by each of its handles. */
void qp_raise(struct qp *qp, enum ibv_event_type type);

/* In SQD: all that was sent is acknowledged. */
void qp_drained(struct qp *qp) REQUIRES(qp->lock);

#endif
