/* SPDX-License-Identifier: BSD-2-Clause */
/* shared.h - this process's XRC target QPs that have openers, and the openers'
 * requests. A QP belongs to the process that created it and ends with that process;
 * within it the QP lives until its last handle is destroyed, the creator's or an
 * opener's.
 */
#ifndef VERBS_SHARED_H
#define VERBS_SHARED_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "verbs/core.h"

struct context;
struct qp;
struct share_msg;

/* ctx is closing: QPs that live on without the creator's handle move to another
 * context of the device, or end. */
void shared_forget_context(struct context *ctx);

/* --- for share.c --- */
void shared_asked(struct core *core, uint16_t slot, const struct share_msg *m)
	REQUIRES(core->turn);
void shared_gone(struct core *core, uint16_t slot) REQUIRES(core->turn);
void shared_again(struct core *core) REQUIRES(core->turn);
void shared_close(struct core *core);

#endif
