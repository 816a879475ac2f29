/* SPDX-License-Identifier: BSD-2-Clause */
/* cq.h - completion queues (IBTA vol. 1, 10.8, 11.4.2).
 *
 * A ring under a lock of its own, the innermost of all locks but the event
 * queue's.  A full ring is an overrun: IBV_EVENT_CQ_ERR once, nothing is added
 * any more, and QPs that complete on it fail.  With ignore_overrun (the program
 * promises that there is none) the oldest entry makes room instead.
 */
#ifndef CORE_CQ_H
#define CORE_CQ_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/event.h"
#include "sys/lock.h"

struct core;
struct pd;

/* Up to `now` it lies as a struct ibv_wc does: cq_poll() copies that (cq.c). */
struct cqe {
	uint64_t wr_id;
	uint32_t status;     /* enum ibv_wc_status */
	uint32_t opcode;     /* enum ibv_wc_opcode */
	uint32_t vendor_err; /* enum verr */
	uint32_t byte_len;
	uint32_t imm; /* immediate, big-endian as it
		       * lies; or the invalidated rkey */
	uint32_t qp_num;
	uint32_t src_qp;
	uint32_t flags; /* enum ibv_wc_flags */
	union {
		struct {
			uint16_t pkey_index, slid; /* UD */
		};
		uint32_t tm_priv; /* of a tag that matched (RC): TMH.app_ctx, */
	};
	uint8_t sl, dlid_path_bits; /* UD: how it came */
	uint64_t now;		    /* timestamp, ns */
	uint64_t tm_tag;	    /* ... TMH.tag */
};

struct cq {
	struct live live;
	struct ibv_cq_ex ex; /* an ibv_cq is its head */
	struct core *core;
	struct context *ctx;
	struct channel *channel;
	struct brief_lock lock;
	struct pd *in;	    /* a parent domain, or NULL */
	struct cqe *ring;   /* [size], a power of two */
	uint32_t size, cap; /* cap: what the program sees as cqe */
	/* Free-running: next in, next out.  Written under the lock. */
	_Atomic uint32_t head, tail;
	enum { CQ_IDLE, CQ_SOLICITED, CQ_ANY } armed;
	bool overrun, ignore_overrun;
	bool stamped;		/* the program reads timestamps */
	_Atomic unsigned users; /* QPs: EBUSY */
	/* channel->queue.lock: */
	struct list event_node; /* in channel->queue.waiting */
	unsigned events_queued; /* not fetched */
	unsigned events_got;	/* fetched, ever */
	/* CQ_EX, for abi/cq_ex.c: between start and end.  A lock of its own:
	 * programs post meanwhile, which may complete work on this very CQ. */
	struct cqe cur;
	struct lock reader;
};

struct cq *cq_of(struct ibv_cq *ibv);
/* 0; -EINVAL: cqe below 1 or above caps.max_cqe; -ENOMEM. */
int cq_create(struct context *ctx, int cqe, struct channel *ch, void *cq_context,
	      struct cq **out);
/* ... in a parent domain. */
int cq_create_in(struct pd *in, struct context *ctx, int cqe, struct channel *ch,
		 void *cq_context, struct cq **out);
int cq_destroy(struct cq *cq);	       /* waits for acks; 0 or -EBUSY */
int cq_resize(struct cq *cq, int cqe); /* -EINVAL: fewer than waiting */
/* One event for the next entry that is added after this, then idle.  Entries
 * that wait already give none: arm, then poll again. */
int cq_arm(struct cq *cq, bool solicited_only);
void cq_ack_events(struct cq *cq, unsigned n);
void cq_ack_all(struct cq *cq); /* its context is being closed */

int cq_poll(struct cq *cq, int n, struct ibv_wc *wc); /* how many, or -errno */
bool cq_pop(struct cq *cq, struct cqe *out);	      /* the oldest; false: none */

/* Without the lock: an entry that is added meanwhile is found by the next poll, as it
 * would be if it came a moment later. */
static inline bool cq_empty(struct cq *cq)
{
	return atomic_load_explicit(&cq->head, memory_order_relaxed) ==
	       atomic_load_explicit(&cq->tail, memory_order_relaxed);
}

/* cq_poll() of 1 or more. */
static inline int cq_take(struct cq *cq, uint32_t n, struct ibv_wc *wc)
{
	uint32_t first, count;

	brief_take(&cq->lock);
	first = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	count = atomic_load_explicit(&cq->head, memory_order_relaxed) - first;
	if (count > n)
		count = n;
	for (uint32_t i = 0; i < count; i++)
		memcpy(&wc[i], &cq->ring[(first + i) & (cq->size - 1)], sizeof(*wc));
	atomic_store_explicit(&cq->tail, first + count, memory_order_relaxed);
	brief_give(&cq->lock);
	return (int)count;
}

/* Add an entry; solicited: wakes CQ_SOLICITED (errors always do).  False: the
 * CQ is overrun and the entry is lost. */
bool cq_push(struct cq *cq, const struct cqe *cqe, bool solicited);

/* Where the next entry is to be made, and the lock; or NULL, without it, where that is
 * not all: cq_push() does the rest. */
static inline NO_TSA struct cqe *cq_begin(struct cq *cq)
{
	uint32_t h;

	brief_take(&cq->lock);
	h = atomic_load_explicit(&cq->head, memory_order_relaxed);
	if (__builtin_expect(h - atomic_load_explicit(&cq->tail, memory_order_relaxed) <
					     cq->cap &&
				     cq->armed == CQ_IDLE && !cq->overrun,
			     1))
		return &cq->ring[h & (cq->size - 1)];
	brief_give(&cq->lock);
	return NULL;
}

static inline NO_TSA void cq_end(struct cq *cq)
{
	uint32_t h = atomic_load_explicit(&cq->head, memory_order_relaxed);

	atomic_store_explicit(&cq->head, h + 1, memory_order_relaxed);
	brief_give(&cq->lock);
}

/* Drop what qpn left behind: the QP is reset or destroyed. */
void cq_forget(struct cq *cq, uint32_t qpn);

/* Blocks unless the descriptor is O_NONBLOCK: -EAGAIN, -EINTR. */
int channel_get(struct channel *ch, struct cq **cq);
/* What follows a token: the next CQ, or NULL, its events were dropped. */
struct cq *channel_pop(struct channel *ch);
/* An event for cq; all of its events that were not fetched. */
void channel_raise(struct channel *ch, struct cq *cq);
void channel_drop(struct channel *ch, struct cq *cq);

#endif
