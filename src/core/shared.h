/* SPDX-License-Identifier: BSD-2-Clause */
/* shared.h - this process's target QPs of XRC that have been opened: by whom, and what
 * these want.  The QP is its process's, and ends with it; there it lives until its last
 * handle is destroyed, be that the creator's or an opener's.
 */
#ifndef CORE_SHARED_H
#define CORE_SHARED_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"

struct context;
struct qp;
struct share_msg;

/* The program destroys its QP.  True: it has, but for the openers the QP goes on.  Waits
 * until the program has acknowledged the events of its own handle. */
bool shared_leave(struct qp *qp);
/* ctx is being closed: what goes on without a handle is another context's of the device,
 * or ends. */
void shared_forget_context(struct context *ctx);
/* The QP ends: so the openers hear. */
void shared_end(struct core *core, struct qp *qp) REQUIRES(core->turn);
/* The openers hear of an event of it.  Turn held. */
void shared_raise(struct qp *qp, enum ibv_event_type type);

/* --- for share.c --- */
void shared_asked(struct core *core, uint16_t slot, const struct share_msg *m)
	REQUIRES(core->turn);
void shared_gone(struct core *core, uint16_t slot) REQUIRES(core->turn);
void shared_again(struct core *core) REQUIRES(core->turn);
void shared_close(struct core *core);

#endif
