/* SPDX-License-Identifier: BSD-2-Clause */
/* counters.h - what a rule does with its counters.  Inside packet/ only. */
#ifndef PACKET_COUNTERS_H
#define PACKET_COUNTERS_H

#include "packet/packet.h"

/* One more rule counts there.  0 or -EINVAL: they are none of ctx's, or count nothing.
 * Turn held, as for those below. */
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
