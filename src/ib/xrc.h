/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc.h - XRC between processes, as its driver sees it (docs/dev/xrc.md).  All need the
 * turn. */
#ifndef IB_XRC_H
#define IB_XRC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct core;

/* Gives the transport pass(), which sends a message to the process that owns slot. pass()
 * returns 0, -EAGAIN (the connection is full), -ESRCH (no process of this user has the
 * slot) or -EFAULT.  lives: a number that is higher than those of the processes that have
 * had the slot before.  Returns 0 or -ENOMEM. */
int ib_xrc_open(struct core *core,
		int (*pass)(void *arg, uint16_t slot, const struct iovec *part,
			    unsigned n),
		void *arg, uint32_t lives);
/* All target QPs are gone. */
void ib_xrc_close(struct core *core);
/* Takes in a message of another process. */
void ib_xrc_heard(struct core *core, uint16_t slot, const void *buf, size_t len,
		  uint64_t now);
/* The process that owned slot has ended. */
void ib_xrc_gone(struct core *core, uint16_t slot, uint64_t now);
/* When to call ib_xrc_run(), which repeats the messages that a full connection refused.
 * NEVER: there are none. */
uint64_t ib_xrc_deadline(struct core *core, uint64_t now);
void ib_xrc_run(struct core *core);

#endif
