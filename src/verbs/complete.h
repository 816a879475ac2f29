/* SPDX-License-Identifier: BSD-2-Clause */
/* complete.h - inside verbs/ only: changes a QP's state and flushes its queues.
 * qp->lock is held. */
#ifndef VERBS_COMPLETE_H
#define VERBS_COMPLETE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "verbs/qp.h"

/* The only function that assigns a QP's state. */
void qp_set_state(struct qp *qp, enum ibv_qp_state state) REQUIRES(qp->lock);

/* Completes posted requests with WR_FLUSH_ERR, send queue before receive queue: in SQE
 * the send queue only, in ERR both, in other states none. */
void qp_flush(struct qp *qp, uint64_t now) REQUIRES(qp->lock);

/* Removes the QP's entries from its CQs. qp->lock may be free. */
void qp_forget_cqes(struct qp *qp);

/* Drops all posted requests without completions. */
void qp_clear(struct qp *qp) REQUIRES(qp->lock);

/* Frees all places of the QP's queues, which are clear; its CQs have no entry of it. */
void qp_free_places(struct qp *qp) REQUIRES(qp->lock);

#endif
