/* SPDX-License-Identifier: BSD-2-Clause */
/* complete.h - inside core/ only: leaving states and flushing queues.
 * qp->lock is held. */
#ifndef CORE_COMPLETE_H
#define CORE_COMPLETE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/qp.h"

/* The one place where a QP's state is assigned. */
void qp_set_state(struct qp *qp, enum ibv_qp_state state) REQUIRES(qp->lock);

/* Everything posted completes with WR_FLUSH_ERR, SQ before RQ.  Does in each
 * state what is right there: SQE flushes the SQ, ERR both, others nothing. */
void qp_flush(struct qp *qp, uint64_t now) REQUIRES(qp->lock);

/* What is in its CQs of it goes.  qp->lock may be free. */
void qp_forget_cqes(struct qp *qp);

/* Drop everything posted, without completions. */
void qp_clear(struct qp *qp) REQUIRES(qp->lock);

#endif
