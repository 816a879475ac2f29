/* SPDX-License-Identifier: BSD-2-Clause */
/* ops.h - the operations that look and pass on: ops.c (posts and polls), wr.c (ibv_wr_*),
 * cq_ex.c (ibv_start_poll). */
#ifndef CHECK_OPS_H
#define CHECK_OPS_H

#include "check/trace.h"
#include "verbs/cq.h"
#include "verbs/qp.h"

/* Puts them in front of the operations of a context, QP, CQ. Those of all contexts, QPs
 * and CQs are the same. */
void ops_of_context(struct verbs_context *v);
void ops_of_qp(struct qp *qp);
void ops_of_cq(struct cq *cq);

enum { HUGE_BITS = 30 }; /* check_wr.huge */

/* How deep this thread is in a function of ours, and may hold locks of this room. In a
 * signal handler that has interrupted one, or another call of urnic's, nothing is looked
 * at, nor in the child of a fork, where threads may hold locks that it does not have. */
extern bool check_is_child; /* of a fork: the contexts are dead */
bool ops_begin(void);
/* The same for what the NIC tells, within a call of urnic's. */
bool ops_begin_told(void);
void ops_end(void);
/* While the NIC's own function runs, the thread is in none of ours, and holds no lock of
 * this room: ops_end() before it, ops_enter() after it. */
void ops_enter(void);
/* Is an object that a call names destroyed? Then tells of it, and does ops_end(). */
bool ops_gone(struct check_object *o, enum live_kind kind);
/* Where the program has called the function that this is written in. */
#define OPS_CALLER trace_of(__builtin_return_address(0), __builtin_frame_address(0))

/* A request of qp's send queue is posted: tells the parts. */
void ops_post(struct check_qp *qp, struct check_wr *w, uint64_t at, uint64_t number);

/* A completion that the program gets. Parts may change *wc. */
void ops_complete(struct ibv_wc *wc);

/* The program is about to poll cq. */
static inline void ops_polls(struct check_cq *cq)
{
	if (atomic_load_explicit(&cq->armed_full, memory_order_relaxed))
		atomic_store_explicit(&cq->armed_full, false, memory_order_relaxed);
}

/* The program got completions that are not looked at. */
void ops_unseen(void);

/* Forgets a request of q that was refused with errno rc; refused() is told if first. qp:
 * NULL for an SRQ. */
void ops_refuse(struct check_qp *qp, struct check_queue *q, struct check_wr *w, int rc,
		bool first);

#endif
