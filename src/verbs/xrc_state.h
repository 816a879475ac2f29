/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc_state.h - what a NIC keeps of XRC (docs/dev/xrc.md): its domains, the QPs that
 * execute requests for target QPs of other processes, and how it learns of other
 * processes.
 */
#ifndef VERBS_XRC_STATE_H
#define VERBS_XRC_STATE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "sys/list.h"
#include "sys/lock.h"

struct core;
struct qp;
struct share;
struct xrc_name;

struct xrc_state {
	/* For xrc.c: */
	struct lock opening;   /* serialises opening and closing of named domains; outside
				* of the turn */
	struct list domains;   /* under core->lock */
	struct list stand_ins; /* linked by qp->xrc.node; under the turn */

	/* What the room above does for xrc.c; NULL: there are no other processes.
	 * claim tells other processes that this one has the domain, and returns 0 and
	 * *claim for unclaim, or -errno. elsewhere: does another process have the domain?
	 * The turn is held for the first two, and not held for elsewhere. */
	int (*claim)(struct core *core, const struct xrc_name *name, void **claim);
	void (*unclaim)(void *claim);
	bool (*elsewhere)(struct core *core, const struct xrc_name *name);

	/* Of verbs/share.h: */
	struct share *share; /* NULL: ibv_open_qp is not served */
};

#endif
