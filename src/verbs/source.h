/* SPDX-License-Identifier: BSD-2-Clause */
/* source.h - what a connected QP does with its own work request before anything of it
 * is sent, whatever the transport. Turn and qp->lock held.
 */
#ifndef VERBS_SOURCE_H
#define VERBS_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "verbs/flush.h"
#include "verbs/qp.h"
#include "verbs/sgl.h"
#include "verbs/wr_op.h"

static inline bool wqe_is_atomic(const struct swqe *w)
{
	return WR_ATOMICS >> w->opcode & 1;
}

/* Is the request answered as a READ of 0 bytes is (annex A19)? */
static inline bool wqe_has_empty_answer(const struct swqe *w)
{
	return WR_EMPTIES >> w->opcode & 1;
}

/* Does the request get a response and not just an ACK? READs and atomics, whose
 * response data is placed in the SGEs, ATOMIC WRITE and FLUSH. */
static inline bool wqe_is_read(const struct swqe *w)
{
	return WR_ANSWERED >> w->opcode & 1;
}

/* Is the request longer than a message may be, or an atomic whose SGEs have no room
 * for the result? */
bool wqe_too_long(const struct swqe *w);

/* The resolved SGEs of the work request at index; valid for one turn. */
struct wqe_memory {
	bool resolved;
	uint32_t index;
	struct span span; /* large: it is not cleared */
};
/* Resolves the SGEs unless they are resolved already. Returns 0, or -EACCES after
 * logging the reason. */
int wqe_resolve(struct qp *qp, uint32_t index, struct wqe_memory *m);

/* The outcome of a bind or an invalidation, for which no packet is sent. It takes
 * effect only after all requests posted before it: those may have to be sent again and
 * need their keys. */
enum wqe_end {
	WQE_WAITS,  /* older requests are still in the queue */
	WQE_DONE,   /* completed; the QP may be in ERR because the CQ is full */
	WQE_FAILED, /* failed as *status and *verr say */
};
enum wqe_end wqe_local_work(struct qp *qp, uint32_t index, enum ibv_wc_status *status,
			    enum verr *verr, uint64_t now) REQUIRES(qp->lock);

#endif
