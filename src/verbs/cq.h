/* SPDX-License-Identifier: BSD-2-Clause */
/* cq.h - completion queues (IBTA vol. 1, 10.8, 11.4.2).
 *
 * A ring under its own lock, the innermost of all locks except the event queue's. A
 * push to a full ring is an overrun: the CQ raises IBV_EVENT_CQ_ERR once, takes no
 * more entries, and QPs that complete on it fail. With ignore_overrun (the program
 * promises that the CQ never overruns) a push to a full ring drops the oldest entry
 * instead.
 *
 * An entry holds places of the queue whose work it completes. They return to that queue
 * when the entry leaves the ring: docs/dev/queues.md.
 */
#ifndef VERBS_CQ_H
#define VERBS_CQ_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "sys/lock.h"
#include "verbs/event.h"

struct core;
struct pd;

/* The fields before `now` are laid out as a struct ibv_wc, so that cq_poll() copies
 * them as they are (cq.c). */
struct cqe {
	uint64_t wr_id;
	uint32_t status;     /* enum ibv_wc_status */
	uint32_t opcode;     /* enum ibv_wc_opcode */
	uint32_t vendor_err; /* enum verr */
	uint32_t byte_len;
	union {
		uint32_t imm; /* flags IBV_WC_WITH_IMM, IBV_WC_WITH_INV: immediate data in
			       * network order, or the invalidated rkey */
		uint32_t cvlan; /* raw packets: the stripped VLAN tag, or 0 */
	};
	uint32_t qp_num;
	uint32_t src_qp;
	uint32_t flags; /* enum ibv_wc_flags */
	union {
		struct {
			uint16_t pkey_index, slid; /* UD */
		};
		uint32_t tm_priv; /* matched tag (RC): TMH.app_ctx */
	};
	uint8_t sl, dlid_path_bits; /* UD: from the received packet */
	uint16_t places;	    /* that it holds, or PLACE_SHARED; 0: none */
	uint64_t now;		    /* timestamp, ns */
	union {
		_Atomic uint32_t *queue; /* places: its count of returned places */
		uint64_t tm_tag;	 /* matched tag (holds no places): TMH.tag */
	};
};

/* cqe.places: one place of an SRQ, whose receives complete to several CQs. */
enum { PLACE_SHARED = UINT16_MAX };

/* Fills *e for a request that succeeded; without places. Field by field: compilers clear
 * a literal of this size by a string instruction, which takes longer than all else here.
 */
static inline void cqe_succeeds(struct cqe *e, uint64_t wr_id, uint32_t qp_num,
				enum ibv_wc_opcode opcode, uint32_t byte_len,
				uint64_t now)
{
	e->wr_id = wr_id;
	e->status = IBV_WC_SUCCESS;
	e->opcode = opcode;
	e->vendor_err = 0;
	e->byte_len = byte_len;
	e->imm = 0;
	e->qp_num = qp_num;
	e->src_qp = 0;
	e->flags = 0;
	e->pkey_index = e->slid = 0;
	e->sl = e->dlid_path_bits = 0;
	e->places = 0;
	e->now = now;
	e->queue = NULL;
}

/* The entry leaves its ring: its places return. The lock of the CQ is held, and all
 * entries with places of one queue are in one CQ, except those of an SRQ. */
static inline void cqe_leaves(const struct cqe *e)
{
	const uint16_t n = e->places;

	if (__builtin_expect((uint16_t)(n - 1) < PLACE_SHARED - 1, 1))
		atomic_store_explicit(e->queue,
				      atomic_load_explicit(e->queue,
							   memory_order_relaxed) +
					      n,
				      memory_order_relaxed);
	else if (n)
		atomic_fetch_add_explicit(e->queue, 1, memory_order_relaxed);
}

struct cq;

/* What may hold entries back before they are in the ring (verbs/order.c). */
struct cq_hooks {
	/* Takes the entry, to push it later by cq_push_now(). False: it goes at once. */
	bool (*hold)(struct cq *cq, const struct cqe *e, bool solicited, uint64_t now);
	/* Drops the entries of QP qpn, whose places return; 0: all of the CQ. */
	void (*forget)(struct cq *cq, uint32_t qpn);
	/* As cq_disown(). */
	void (*disown)(struct cq *cq, const _Atomic uint32_t *queue);
};

enum cq_wants { CQ_IDLE, CQ_SOLICITED, CQ_ANY };

struct cq {
	struct live live;
	struct ibv_cq_ex ex; /* an ibv_cq is its head */
	struct core *core;
	struct context *ctx;
	struct channel *channel;
	struct brief_lock lock;
	struct pd *in;	    /* the parent domain it was created in, or NULL */
	struct cqe *ring;   /* [size], a power of two */
	uint32_t size, cap; /* cap: entries as reported to the program */
	/* Free-running indices: next to fill, next to read. Written under the lock. */
	_Atomic uint32_t head, tail;
	/* owed: what the last arm was for, if an event may be due when the next poll has
	 * ended; see cq_arm(). */
	_Atomic(enum cq_wants) armed, owed;
	uint32_t told;	       /* number of waiting entries that events have told of */
	uint32_t solicited;    /* index of the newest entry that is solicited or failed */
	_Atomic bool solicits; /* an event has come for solicited entries alone */
	/* What keeps entries from the fast path. */
	union {
		struct {
			bool overrun;
			bool ordered; /* there are hooks */
		};
		uint16_t odd;
	};
	bool ignore_overrun;
	const struct cq_hooks *hooks; /* or NULL */
	_Atomic uint32_t held;	      /* entries that they hold */
	bool stamped;		      /* the program reads timestamps */
	_Atomic unsigned users;	      /* QPs that use it; EBUSY on destroy unless 0 */
	/* Guarded by channel->queue.lock: */
	struct list event_node; /* in channel->queue.waiting */
	unsigned events_queued; /* raised, not fetched yet */
	unsigned events_got;	/* fetched since creation */
	struct list in_channel; /* channel->asleep.cqs */
	uint32_t left_at;	/* the oldest entry when verbs/asleep.c looked last, */
	bool left;		/* if there was one */
	/* The threads that armed it last, and polled last after an event; 0: none. */
	_Atomic(pthread_t) armer, taker;
	/* For abi/cq_ex.c, between start_poll and end_poll. The reader needs its own
	 * lock because the program may post meanwhile, which may complete work on this
	 * CQ. */
	struct cqe cur;
	uint64_t time_of_day; /* less the adapter's time; 0: not known yet */
	struct lock reader;
};

struct cq *cq_of(struct ibv_cq *ibv);
/* Returns 0, -EINVAL if cqe is below 1 or above caps.max_cqe, or -ENOMEM. */
int cq_create(struct context *ctx, int cqe, struct channel *ch, void *cq_context,
	      struct cq **out);
/* cq_create() for a CQ of parent domain `in`. */
int cq_create_in(struct pd *in, struct context *ctx, int cqe, struct channel *ch,
		 void *cq_context, struct cq **out);
int cq_destroy(struct cq *cq);	       /* waits for acked events; 0 or -EBUSY */
int cq_resize(struct cq *cq, int cqe); /* -EINVAL: cqe is less than the entries present */
/* Arms the CQ for one event, at the next entry that is added. Where an entry waits to be
 * polled that no event has told of, the event comes at once, as RNICs do that are armed
 * with a consumer index: programs arm without a poll afterwards (UCX).
 *
 * An event tells of one entry, the oldest first. While an entry waits that events have
 * told of, the program still has to poll, and the event for the others is put off until
 * that poll has ended, or that entry goes without a poll. So a program that fetches the
 * event, arms, and polls gets as many events as entries if it takes one entry each time
 * (ib_send_lat -e posts for each event), and no event for entries that the poll took
 * (ibv_rc_pingpong -e -t fails if it finds nothing). */
int cq_arm(struct cq *cq, bool solicited_only);
/* In a signal handler that has interrupted another call: does that not hold what cq_arm()
 * takes? */
bool cq_may_arm(const struct cq *cq);
void cq_ack_events(struct cq *cq, unsigned n);
/* The same for a CQ that may be in cq_destroy(), which waits for it; cq is compared
 * first. False: it is not. */
bool cq_ack_leaving(struct cq *cq, unsigned n);
void cq_forked(void); /* in the child of a fork, which has no thread that destroys one */
void cq_ack_all(struct cq *cq); /* acknowledges all events: the context is closing */

int cq_poll(struct cq *cq, int n, struct ibv_wc *wc); /* number of entries, or -errno */
bool cq_pop(struct cq *cq, struct cqe *out);	      /* the oldest entry; false: none */

static inline enum cq_wants cq_armed(const struct cq *cq)
{
	return atomic_load_explicit(&cq->armed, memory_order_relaxed);
}

/* Reads without the lock: an entry added at the same moment is found by the next poll. */
static inline bool cq_empty(struct cq *cq)
{
	return atomic_load_explicit(&cq->head, memory_order_relaxed) ==
	       atomic_load_explicit(&cq->tail, memory_order_relaxed);
}

/* After a poll that has taken entries which events had told of: raises the event that
 * was put off, if entries are left. */
void cq_polled(struct cq *cq);

/* cq_poll() for n >= 1. */
static inline int cq_take(struct cq *cq, uint32_t n, struct ibv_wc *wc)
{
	uint32_t first, count, told;

	brief_take(&cq->lock);
	told = cq->told;
	first = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	count = atomic_load_explicit(&cq->head, memory_order_relaxed) - first;
	if (count > n)
		count = n;
	for (uint32_t i = 0; i < count; i++) {
		const struct cqe *e = &cq->ring[(first + i) & (cq->size - 1)];

		memcpy(&wc[i], e, sizeof(*wc));
		cqe_leaves(e);
	}
	atomic_store_explicit(&cq->tail, first + count, memory_order_relaxed);
	if (__builtin_expect(told != 0, 0))
		cq->told = told > count ? told - count : 0;
	brief_give(&cq->lock);
	if (__builtin_expect(told != 0, 0))
		cq_polled(cq);
	return (int)count;
}

/* Adds an entry. solicited: wakes a CQ armed for solicited events (errors always do).
 * Returns false if the CQ is overrun and the entry is lost. */
bool cq_push(struct cq *cq, const struct cqe *cqe, bool solicited);
/* For verbs/order.c: the same, but the entry is not held; and is there room for one more
 * entry than those that it holds? */
bool cq_push_now(struct cq *cq, const struct cqe *cqe, bool solicited);
bool cq_has_room(struct cq *cq);

/* The fast path of cq_push(): returns the place for the next entry, with the lock held
 * until cq_end(); there, an error is solicited, too. Returns NULL, without the lock, if
 * the CQ is full, armed, overrun or ordered: use cq_push() then. */
static inline NO_TSA struct cqe *cq_begin(struct cq *cq)
{
	uint32_t h;

	brief_take(&cq->lock);
	h = atomic_load_explicit(&cq->head, memory_order_relaxed);
	if (__builtin_expect(h - atomic_load_explicit(&cq->tail, memory_order_relaxed) <
					     cq->cap &&
				     cq_armed(cq) == CQ_IDLE && !cq->odd,
			     1))
		return &cq->ring[h & (cq->size - 1)];
	brief_give(&cq->lock);
	return NULL;
}

static inline NO_TSA void cq_end(struct cq *cq, bool solicited)
{
	uint32_t h = atomic_load_explicit(&cq->head, memory_order_relaxed);

	if (solicited)
		cq->solicited = h;
	atomic_store_explicit(&cq->head, h + 1, memory_order_relaxed);
	brief_give(&cq->lock);
}

/* Removes the entries of QP qpn, which is being reset or destroyed. */
void cq_forget(struct cq *cq, uint32_t qpn);
/* Returns n places of a queue that completes to cq and whose requests end without an
 * entry. */
void cq_return(struct cq *cq, _Atomic uint32_t *queue, uint32_t n);
/* Lets the entries stay, but without the places of a queue that is being destroyed. */
void cq_disown(struct cq *cq, const _Atomic uint32_t *queue);

/* Returns the next CQ that raised an event. Blocks unless the descriptor is
 * O_NONBLOCK. Returns 0, -EAGAIN or -EINTR. */
int channel_get(struct channel *ch, struct cq **cq);
/* After a token was read: returns the next CQ, or NULL if its events were dropped. */
struct cq *channel_pop(struct channel *ch);
/* Queue an event for cq; drop all its events that were not fetched. */
void channel_raise(struct channel *ch, struct cq *cq);
void channel_drop(struct channel *ch, struct cq *cq);

#endif
