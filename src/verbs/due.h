/* SPDX-License-Identifier: BSD-2-Clause */
/* due.h - the stack of QPs that have something for the engine to do.
 *
 * Any thread adds a QP without a lock; the turn's holder takes the whole stack. A QP
 * is in the stack at most once, by its qp->sched.due flag. A thread that adds a QP tries
 * for the turn afterwards, and a holder looks at the stack once more after giving the
 * turn: so one of the two sees the work. (All these accesses are seq_cst.)
 */
#ifndef VERBS_DUE_H
#define VERBS_DUE_H

#include <stdbool.h>
#include <stdint.h>

#include "verbs/core.h"

struct qp;

void due_add(struct core *core, struct qp *qp);
/* Takes all QPs, oldest first, linked by qp->due_next. Their due flags are cleared, so
 * they may be added again at once. The caller keeps the turn until it has walked the
 * list. */
struct qp *due_take(struct core *core) REQUIRES(core->turn);
bool due_any(struct core *core);
/* Has qp run again by `at` (ns; NEVER: not at all). A timer that fires early finds
 * nothing due and is set again, so a later time need not move the timer. */
void due_at(struct core *core, struct qp *qp, uint64_t at) REQUIRES(core->turn);
/* Removes qp, which is being destroyed, and its timer. */
void due_forget(struct core *core, struct qp *qp) REQUIRES(core->turn);

#endif
