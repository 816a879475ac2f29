/* SPDX-License-Identifier: BSD-2-Clause */
/* due.h - QPs that have something for the engine to do.
 *
 * Any thread adds a QP to a stack without a lock. The turn's holder serves the oldest
 * first: it takes the whole stack, and takes it again when all of them were served. A QP
 * is due at most once, by its qp->sched.due flag. A thread that adds a QP tries
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
/* Takes the QP that has been due for longest, or NULL. It may be added again at once. */
struct qp *due_next(struct core *core) REQUIRES(core->turn);
bool due_any(struct core *core);
/* Has qp run again by `at` (ns; NEVER: not at all). A timer that fires early finds
 * nothing due and is set again, so a later time need not move the timer. */
void due_at(struct core *core, struct qp *qp, uint64_t at) REQUIRES(core->turn);
/* Removes qp, which is being destroyed, and its timer. */
void due_forget(struct core *core, struct qp *qp) REQUIRES(core->turn);

#endif
