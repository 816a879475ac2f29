/* SPDX-License-Identifier: BSD-2-Clause */
/* share.h - messages about XRC target QPs that were opened by number (ibv_open_qp),
 * between the QP's process and the openers in this or other processes of the domain.
 * See docs/dev/xrc.md. Turn held.
 */
#ifndef VERBS_SHARE_H
#define VERBS_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs/share_ops.h"

struct core;

int share_open(struct core *core, const struct share_ops *ops, void *arg);
void share_close(struct core *core);
/* Takes a message from another process. Returns false if it is not about opened QPs. */
bool share_heard(struct core *core, uint16_t slot, const void *buf, size_t len);
void share_gone(struct core *core, uint16_t slot);
uint64_t share_deadline(const struct core *core);
void share_run(struct core *core, uint64_t now);
/* core->dead was set: wakes the threads that wait for an answer, which will not come. */
void share_break(struct core *core);

#endif
