/* SPDX-License-Identifier: BSD-2-Clause */
/* core.c - see core.h. */
#include "core/core.h"

#include <stdlib.h>
#include <string.h>

#include "sys/clock.h"
#include "sys/secret.h"

/* Draws QP numbers and key pages at random, so that a peer cannot guess them from
 * those of other QPs and keys. */
static void draw_numbers(struct core *core)
{
	struct secret s = { 0 };

	for (unsigned i = QPN_FIRST; i < QPN_INDICES; i++)
		core->qp_free[i - QPN_FIRST] = (uint16_t)i;
	secret_shuffle(&s, core->qp_free, QPN_INDICES - QPN_FIRST);
	core->srq_next = secret_word(&s);
	core->mkey_place = secret_word(&s) % MKEY_EXPORT_PAGES;
}

static void free_tables(struct core *core)
{
	for (unsigned i = 0; core->mkeys && i < MKEY_PAGES; i++)
		free(core->mkeys[i]);
	free((void *)core->mkeys);
	free(core->qp_free);
	free(core->qps);
	free(core->srqs);
}

int core_init(struct core *core, uint16_t slot)
{
	memset(core, 0, sizeof(*core));
	core->slot = slot;
	core->heard = NEVER;
	/* calloc, so that the tables cost memory only where they are used. */
	core->qps = calloc(QPN_INDICES, sizeof(*core->qps));
	core->qp_free = calloc(QPN_INDICES, sizeof(*core->qp_free));
	core->srqs = calloc(QPN_INDICES, sizeof(*core->srqs));
	core->mkeys = calloc(MKEY_PAGES, sizeof(*core->mkeys));
	if (!core->qps || !core->qp_free || !core->srqs || !core->mkeys) {
		free_tables(core);
		return -ENOMEM;
	}
	draw_numbers(core);
	turn_init(&core->turn);
	lock_init(&core->lock);
	list_init(&core->pd_list);
	list_init(&core->dm_list);
	list_init(&core->mcast);
	list_init(&core->devices);
	list_init(&core->contexts);
	list_init(&core->windows);
	list_init(&core->qp1s);
	list_init(&core->xrc_domains);
	list_init(&core->xrc_stand_ins);
	lock_init(&core->xrc_lock);
	return 0;
}

void core_fini(struct core *core)
{
	free_tables(core);
	memset(core, 0, sizeof(*core));
}
