/* SPDX-License-Identifier: BSD-2-Clause */
/* failure.h - a line of the log for each completion that failed.  At level warn only the
 * process's first one has a line.  Flushed requests have none, as programs end their QPs
 * so, and at level warn a peer that has ended has none: of two programs one ends first,
 * and the last message of the other may be on its way. */
#ifndef VERBS_FAILURE_H
#define VERBS_FAILURE_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "verbs/qp.h"

void failure_of_send(const struct qp *qp, const struct swqe *w, enum ibv_wc_status status,
		     enum verr verr) REQUIRES(qp->lock);
void failure_of_recv(const struct qp *qp, const struct cqe *cqe) REQUIRES(qp->lock);

#endif
