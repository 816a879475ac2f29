/* SPDX-License-Identifier: BSD-2-Clause */
/* core.c - see core.h. */
#include "core/core.h"

#include <stdlib.h>
#include <string.h>

#include "core/mkey.h"

int core_init(struct core *core, uint16_t slot)
{
	memset(core, 0, sizeof(*core));
	core->slot = slot;
	/* calloc, so that the tables cost memory only where they are used. */
	core->qps = calloc(QPN_INDICES, sizeof(*core->qps));
	core->qp_rest_until = calloc(QPN_INDICES, sizeof(*core->qp_rest_until));
	if (!core->qps || !core->qp_rest_until || mkey_table_init(core)) {
		free(core->qps);
		free(core->qp_rest_until);
		return -ENOMEM;
	}
	turn_init(&core->turn);
	lock_init(&core->lock);
	list_init(&core->srqs);
	list_init(&core->mcast);
	list_init(&core->devices);
	list_init(&core->contexts);
	list_init(&core->windows);
	return 0;
}

void core_fini(struct core *core)
{
	mkey_table_fini(core);
	free(core->qp_rest_until);
	free(core->qps);
	memset(core, 0, sizeof(*core));
}
