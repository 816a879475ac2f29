/* SPDX-License-Identifier: BSD-2-Clause */
/* flow_counters.h - counting the frames of a flow rule. Inside raw/ only. */
#ifndef RAW_FLOW_COUNTERS_H
#define RAW_FLOW_COUNTERS_H

#include "raw/packet.h"

/* Adds a rule that counts in ibv. Returns 0, or -EINVAL if the counters are not of ctx
 * or have no points attached. Turn held, as for the calls below. */
int counters_bind(struct ibv_counters *ibv, const struct context *ctx,
		  struct counters **out);

static inline void counters_unbind(struct counters *c)
{
	c->flows--;
}

static inline void counters_add(struct counters *c, uint32_t bytes)
{
	c->sum[IBV_COUNTER_PACKETS]++;
	c->sum[IBV_COUNTER_BYTES] += bytes;
}

#endif
