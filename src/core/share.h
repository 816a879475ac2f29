/* SPDX-License-Identifier: BSD-2-Clause */
/* share.h - a target QP of XRC may be opened by its number (ibv_open_qp), by its process
 * or another one of the domain: what these say to each other.  docs/xrc.md is the page.
 * Turn held.
 */
#ifndef CORE_SHARE_H
#define CORE_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/share_ops.h"

struct core;

int share_open(struct core *core, const struct share_ops *ops, void *arg);
void share_close(struct core *core);
/* False: the message is no matter of this. */
bool share_heard(struct core *core, uint16_t slot, const void *buf, size_t len);
void share_gone(struct core *core, uint16_t slot);
uint64_t share_deadline(const struct core *core);
void share_run(struct core *core, uint64_t now);
/* core->dead is set: nobody will be answered any more. */
void share_break(struct core *core);

#endif
