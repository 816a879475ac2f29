/* SPDX-License-Identifier: BSD-2-Clause */
/* source.h - what a connected QP does first with a work request of its own: whatever
 * its transport is, and before anything of it goes out.
 * Turn and qp->lock held.
 */
#ifndef CORE_SOURCE_H
#define CORE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/flush.h"
#include "core/qp.h"
#include "core/sgl.h"

static inline bool wqe_is_atomic(const struct swqe *w)
{
	return w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* It is answered as a READ of nothing (annex A19). */
static inline bool wqe_has_empty_answer(const struct swqe *w)
{
	return w->opcode == IBV_WR_ATOMIC_WRITE || w->opcode == WR_FLUSH;
}

/* It has an answer, not only an ACK: READ, atomic, whose answer has data, which is placed
 * in memory of its SGEs; ATOMIC WRITE and FLUSH. */
static inline bool wqe_is_read(const struct swqe *w)
{
	return w->opcode == IBV_WR_RDMA_READ || wqe_is_atomic(w) ||
	       wqe_has_empty_answer(w);
}

/* Longer than a message may be, or an atomic without room for its answer. */
bool wqe_too_long(const struct swqe *w);

/* The memory of the work request at index, once it is resolved: for one turn. */
struct wqe_memory {
	bool resolved;
	uint32_t index;
	struct span span; /* large: it is not cleared */
};
/* 0, also where it was resolved before; or -EACCES and a line in the log. */
int wqe_resolve(struct qp *qp, uint32_t index, struct wqe_memory *m);

/* A bind or an invalidation, which no packet is sent for.  Its effect comes after all
 * that was posted before it: those may have to be sent again, and need their keys. */
enum wqe_end {
	WQE_WAITS,  /* it is not the oldest yet */
	WQE_DONE,   /* and complete; perhaps the QP is in ERR, its CQ being full */
	WQE_FAILED, /* as *status and *verr say */
};
enum wqe_end wqe_local_work(struct qp *qp, uint32_t index, enum ibv_wc_status *status,
			    enum verr *verr, uint64_t now) REQUIRES(qp->lock);

/* The line in the log of one that does not go out. */
void wqe_refused(const struct qp *qp, const struct swqe *w, enum verr verr);

#endif
