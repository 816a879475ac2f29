/* SPDX-License-Identifier: BSD-2-Clause */
/* due.h - QPs that have something for the engine to do.
 *
 * Any thread adds, without a lock; the holder of the turn takes all.  A QP is
 * in the stack at most once, by its qp->due flag.  Whoever adds tries for the
 * turn afterwards; whoever gives the turn looks here once more: so one of the
 * two sees the work.  (All of that is seq_cst.)
 */
#ifndef CORE_DUE_H
#define CORE_DUE_H

#include <stdbool.h>

#include "core/core.h"

struct qp;

void due_add(struct core *core, struct qp *qp);
/* All of them, oldest first, linked by qp->due_next; their flags are clear, so
 * they may be added again at once.  The turn is not given before the list is walked. */
struct qp *due_take(struct core *core) REQUIRES(core->turn);
bool due_any(struct core *core);
/* Take qp out: it is being destroyed. */
void due_forget(struct core *core, struct qp *qp) REQUIRES(core->turn);

#endif
