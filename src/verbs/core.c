/* SPDX-License-Identifier: BSD-2-Clause */
/* core.c - see core.h. */
#include "verbs/core.h"

#include <errno.h>
#include <string.h>

#include "sys/clock.h"

static void free_tables(struct core *core)
{
	mkeys_fini(&core->mkeys);
	numbers_fini(&core->qps);
	numbers_fini(&core->srqs);
}

int core_init(struct core *core, uint16_t slot)
{
	memset(core, 0, sizeof(*core));
	core->slot = slot;
	core->round.heard = NEVER;
	if (numbers_init(&core->qps) || numbers_init(&core->srqs) ||
	    mkeys_init(&core->mkeys)) {
		free_tables(core);
		return -ENOMEM;
	}
	turn_init(&core->turn);
	lock_init(&core->lock);
	list_init(&core->pd_list);
	list_init(&core->dm_list);
	list_init(&core->mcast);
	list_init(&core->contexts);
	list_init(&core->sleepers);
	source_init(&core->asleep, NULL);
	list_init(&core->windows);
	list_init(&core->gsis);
	list_init(&core->xrc.domains);
	list_init(&core->xrc.stand_ins);
	lock_init(&core->xrc.opening);
	return 0;
}

void core_forked(struct core *core)
{
	lock_init(&core->xrc.opening);
	lock_init(&core->mkeys.lock);
	lock_init(&core->lock);
}

void core_fini(struct core *core)
{
	free_tables(core);
	memset(core, 0, sizeof(*core));
}
