/* SPDX-License-Identifier: BSD-2-Clause */
/* check.h - for the parts of src/check: what is known of the program's objects and work
 * requests, which events a part may see, and how it reports.  docs/dev/check.md.
 *
 * A part is a file with one `const struct check_part', named in parts.def, and rows
 * in sys/checks.def.  All functions of a part may be called by several threads; those
 * that get a queue are called with that queue's lock held, and must not post or poll. */
#ifndef CHECK_CHECK_H
#define CHECK_CHECK_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/checks.h"
#include "sys/list.h"
#include "sys/lock.h"

/* A backtrace that is kept (trace.h); 0: none. */
typedef uint32_t check_trace;

/* What the program has made: the head of check_qp, check_cq and so on.  It stays when
 * the object is destroyed (gone), so that stale pointers can be told of. */
struct check_object {
	struct check_object *next; /* in the table by address: object.c */
	struct check_object *_Atomic next_queue;
	struct list living;	 /* of its kind, until it is gone */
	const struct live *live; /* its address; compared, not read */
	enum live_kind kind;
	_Atomic bool gone;
	bool inner;		 /* the library's own: rdma_cm's */
	check_trace made, ended; /* where */
	uint64_t made_at, ended_at;
};

enum { CHECK_RECV = 0xff }; /* check_wr.opcode of a receive */

/* A work request that is posted and not reaped. */
struct check_wr {
	uint64_t wr_id;
	uint64_t at;	      /* when it was posted, ns */
	uint64_t number;      /* of its post: heard.h */
	uint64_t remote_addr; /* of RDMA and atomics */
	uint32_t rkey;
	uint32_t length; /* bytes of all SGEs, or inline */
	check_trace trace;
	uint16_t asked_sge; /* what the program has said */
	uint16_t num_sge;   /* with IBV_SEND_INLINE: the lkeys mean nothing */
	uint8_t opcode;	    /* enum ibv_wr_opcode, or CHECK_RECV */
	uint8_t flags;	    /* enum ibv_send_flags; SIGNALED set by sq_sig_all, too */
	bool huge;	    /* has an SGE of 1 GiB or more */
	bool gone;	    /* reaped out of order, or refused */
	bool building;	    /* between ibv_wr_start and ibv_wr_complete */
	uint32_t batch;	    /* posted by one call; wr.c */
	uint32_t list;	    /* the same for ibv_post_send; 0: not by that */
	uint64_t own[2];    /* a part's own; 0 at first */
	struct ward *ward;  /* of its pages, or NULL; ward.h */
	struct ibv_sge *sge;
};

/* A queue of requests, in the order of posting; queue.c. */
struct check_queue {
	uint32_t cap;  /* places that the program has */
	uint32_t size; /* power of two: more than cap */
	uint32_t max_sge;
	uint32_t head, tail; /* free-running */
	bool unsure;	     /* something was not seen (a signal handler): no reports */
	bool posted;	     /* something was posted ever */
	bool failed;	     /* a request has failed: all that follow will, in order */
	struct check_wr *wr; /* [size] */
	struct ibv_sge *sge; /* [size * max_sge] */
};

static inline struct check_wr *check_wr_at(const struct check_queue *q, uint32_t i)
{
	return &q->wr[i & (q->size - 1)];
}

/* for each request that is outstanding, the oldest first */
#define check_for_each(w, q)                                                             \
	for (uint32_t at_ = (q)->tail; at_ != (q)->head; at_++)                          \
		if (((w) = check_wr_at(q, at_))->gone) {                                 \
		} else

struct check_cq;
struct check_srq;

/* An access that a key does not allow. */
struct check_denied {
	bool remote;
	uint32_t key;
	uint64_t va, len;
	int access; /* what is needed: enum ibv_access_flags; 0: local read */
	int why;    /* enum mr_why */
};

struct check_qp {
	struct check_object o; /* must be first, as in the others */
	struct check_qp *_Atomic next_number;
	struct ibv_qp *ibv;
	uint32_t qpn;
	enum ibv_qp_type type;
	bool sig_all;
	struct ibv_qp_cap cap;		    /* as granted */
	struct check_cq *send_cq, *recv_cq; /* or NULL */
	struct check_srq *srq;		    /* or NULL */
	struct brief_lock lock;		    /* guards what follows */
	enum ibv_qp_state state;	    /* as the program has set it, or ERR */
	check_trace state_trace;	    /* where it was set */
	uint64_t state_at, reset_at, rtr_at;
	bool failed;		    /* the program has got a completion with an error */
	struct check_denied denied; /* the latest */
	_Atomic bool starved; /* a message came before the first receive was posted */
	struct check_queue sq, rq;
	/* onesided.c's: its place in race.h; the peer's address, and its process; 0: not
	 * known */
	uint32_t component;
	uint64_t peer, process;
	struct check_wr *draft; /* the latest request being built, */
	uint32_t batch;		/* and those with it; wr.c */
	uint32_t lists;		/* counts calls of ibv_post_send */
	unsigned late_posts[2]; /* states.c: sends and receives after an error */
	uint32_t srq_reaped;	/* receives of srq; under its lock */
	/* lists.c: a list of which only the first requests were taken */
	struct {
		bool is;
		uint64_t wr_id, addr, bad_wr_id, bad_addr;
		check_trace trace;
		uint64_t at;
	} partial;
};

struct check_srq {
	struct check_object o;
	struct ibv_srq *ibv;
	struct brief_lock lock;
	struct check_queue rq;
};

struct check_cq {
	struct check_object o;
	struct ibv_cq *ibv;
	_Atomic bool overrun;	/* it is reported */
	_Atomic uint64_t feeds; /* places of the queues that feed it */
	_Atomic uint32_t events_got, events_acked;
	_Atomic check_trace armed; /* where it was armed last */
	/* It had an entry then, and no event waited; and it was not polled since */
	_Atomic bool armed_full;
	_Atomic uint32_t armed_head; /* entries ever added to it, then */
};

struct check_mr {
	struct check_object o;
	struct check_mr *next_key; /* in the table by key: object.c */
	uint64_t addr, length, iova;
	uint32_t lkey; /* and rkey: urnic's are the same */
	int access;
};

/* What a part sees.  Each may be NULL. */
struct check_part {
	const char *name;
	enum check first, last; /* the checks that it does: it is used if one is on */
	void (*start)(void);
	/* A request is about to be given to the NIC; and was refused with errno rc (the
	 * request is in the queue until this returns). */
	void (*post)(struct check_qp *qp, struct check_wr *w);
	void (*refused)(struct check_qp *qp, const struct check_wr *w, int rc);
	/* A receive, of a QP or (qp NULL) of an SRQ. */
	void (*recv)(struct check_qp *qp, struct check_srq *srq, struct check_wr *w);
	/* The same, for both, if something is not as usual (is_usual() in ops.c): the QP
	 * is in ERR or has failed, it is the queue's first request, ... Before them. */
	void (*unusual)(struct check_qp *qp, struct check_srq *srq, struct check_wr *w);
	/* The program gets a completion. w: its request, which is outstanding until this
	 * returns, or NULL: it was not seen. Unsignalled requests that it completes, too,
	 * have been given with reaped(). */
	void (*complete)(struct check_qp *qp, struct check_wr *w,
			 const struct ibv_wc *wc);
	/* Then, if it is an error. wc may be changed. */
	void (*fails)(struct check_qp *qp, struct check_wr *w, struct ibv_wc *wc);
	void (*reaped)(struct check_qp *qp, struct check_wr *w);
	/* A peer's WRITE or atomic is about to change memory here, or (done) has done so;
	 * a piece at a time. The turn is held. */
	void (*wrote)(const void *host, uint64_t len, bool done);
	/* Peers may have written to this process's memory unseen, and by that have
	 * answered what was posted with that number or before; lent: also to memory that
	 * lets them, at any time. A queue's lock may be held. */
	void (*spoke)(uint64_t number, bool lent);
	/* A part of a request of a process of this host is about to be executed, once.
	 * The turn and its QP's lock (the NIC's) are held. */
	void (*reaches)(const struct check_access *a);
	/* The program reads a field of a completion with an error: ibv_wc_read_*(). */
	void (*reads)(struct check_cq *cq, const char *field);
	/* The program has polled a CQ, and got no completion. */
	void (*empty)(struct check_cq *cq);
	void (*armed)(struct check_cq *cq);
	/* A thread is about to sleep for an event of a channel. */
	void (*waits)(struct ibv_comp_channel *ch);
	void (*modified)(struct check_qp *qp, const struct ibv_qp_attr *attr, int mask);
	/* By o->kind it is a check_qp, _cq, _srq, _mr, or a check_object alone.
	 * `destroys' comes first and when destruction is refused, too. */
	void (*made)(struct check_object *o);
	void (*destroys)(struct check_object *o);
	void (*gone)(struct check_object *o);
	/* A verb (or a post or poll) names an object that is gone. */
	void (*stale)(struct check_object *o, enum live_kind kind, bool destroys);
	/* Its peer in another process has told how it was set up. Both locks of the QP's
	 * are held. */
	void (*meets)(struct check_qp *qp, uint32_t peer, const struct check_end *its);
	/* A peer may not reach what it asks for: called with the lock of the QP's. */
	void (*denied)(struct check_qp *qp, const struct check_denied *d);
	/* The process ends by exit(), or by return from main(). */
	void (*exits)(void);
};

/* Is it asked for?  A part that has several checks asks before it works for one. */
extern uint64_t checks_on;
static inline bool check_is_on(enum check check)
{
	return checks_on & check_bit(check);
}

/* --- reports (report.c) ---------------------------------------------------- */

/* An earlier event that a report is about; where is one of the traces below. */
struct check_before {
	const char *what; /* "posted here", "deregistered here" */
	check_trace where;
	uint64_t at; /* ns; 0: not known */
};

/* Reports what the calling thread is doing, with its backtrace; at most `n' earlier
 * events. The same check at the same place is counted only. */
void check_report(enum check check, const struct check_before *before, unsigned n,
		  const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The same for something whose place is not the calling thread's: where's. */
void check_report_at(enum check check, check_trace where,
		     const struct check_before *before, unsigned n, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* The same for what happened to an object, seen where the program does something else or
 * nothing: the place is where it was made. o may be NULL. */
void check_report_made(enum check check, const struct check_object *o,
		       const struct check_before *before, unsigned n, const char *fmt,
		       ...) __attribute__((format(printf, 5, 6)));

/* Where the calling thread is, as the program sees it. For control verbs. */
check_trace check_here(void);

uint64_t check_now(void); /* ns */

/* "SEND", "RDMA_WRITE", ... */
const char *check_opcode(unsigned opcode);

/* --- objects (object.c) ---------------------------------------------------- */

/* How it was set up, as it says itself (peers.c). Its lock is not needed. */
struct check_end check_end_of(const struct check_qp *qp);
/* Does this process have another CLOCK_MONOTONIC than its host (time_namespaces(7))?
 * between.c. */
bool check_clock_is_shifted(void);

/* Calls fn for each object of that kind that is not gone, the oldest first; with the
 * table's lock held: fn may try locks, takes none and reports nothing. Stops when fn
 * returns false. */
void check_each(enum live_kind kind, bool (*fn)(struct check_object *o, void *arg),
		void *arg);
/* Fills o with those of that kind that are not gone, the oldest first, without the first
 * `skip'.  Returns how many: fewer than `most' are the last. They may end meanwhile. */
unsigned check_list(enum live_kind kind, unsigned skip, struct check_object **o,
		    unsigned most);
/* The object at this address that was made last, or NULL. */
struct check_object *check_find(const struct live *l, enum live_kind kind);
/* The region that was made last with this key, whether it is gone or not; or NULL. */
struct check_mr *check_mr_of_key(uint32_t key);
struct check_qp *check_qp_of_number(uint32_t qpn);

#endif
