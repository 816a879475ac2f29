/* SPDX-License-Identifier: BSD-2-Clause */
/* flow_counters.c - counter objects of flow rules (ibv_create_counters). tap.c adds each
 * frame to the object that its rule names; several rules may name one object. The points
 * that a program has attached say at which index of the array that it reads each sum
 * stands.
 */
#include "raw/packet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/event.h"

struct counters *counters_of(struct ibv_counters *ibv)
{
	return container_of(ibv, struct counters, ibv);
}

int counters_create(struct context *ctx, const struct ibv_counters_init_attr *attr,
		    struct counters **out)
{
	struct counters *c;

	if (!(kind_qp_types(ctx->dev->kind) & 1 << IBV_QPT_RAW_PACKET) || attr->comp_mask)
		return -EOPNOTSUPP;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->ctx = ctx;
	c->ibv.context = ctx->ibv;
	live_add(&c->live, LIVE_COUNTERS, ctx->ibv);
	*out = c;
	return 0;
}

int counters_destroy(struct counters *c)
{
	struct turn *turn = &c->ctx->core->turn;
	unsigned flows;

	turn_take(turn);
	flows = c->flows;
	if (!flows)
		live_del(&c->live);
	turn_give(turn);
	if (flows) {
		log_info(
			"counters are not destroyed: %u rules of ibv_create_flow count there",
			flows);
		return -EBUSY;
	}
	context_free(c->ctx, c);
	return 0;
}

static int add_point(struct counters *c, const struct ibv_counter_attach_attr *attr)
{
	if (c->flows) {
		log_info("attach_counters_point_flow refused: %u rules of "
			 "ibv_create_flow count there already",
			 c->flows);
		return -EBUSY;
	}
	if (c->points == COUNTERS_POINTS)
		return -ENOMEM;
	c->point[c->points++] = (struct counters_point){
		.index = attr->index,
		.what = attr->counter_desc,
	};
	return 0;
}

int counters_attach(struct counters *c, const struct ibv_counter_attach_attr *attr)
{
	struct turn *turn = &c->ctx->core->turn;
	int rc;

	if (attr->comp_mask || (unsigned)attr->counter_desc > IBV_COUNTER_BYTES)
		return -EOPNOTSUPP;
	turn_take(turn);
	rc = add_point(c, attr);
	turn_give(turn);
	return rc;
}

/* As in Linux, an object can be read only if a rule names it and the array has room
 * for each point. */
static bool is_readable(const struct counters *c, uint32_t n)
{
	if (!c->flows)
		return false;
	for (unsigned i = 0; i < c->points; i++)
		if (c->point[i].index >= n)
			return false;
	return true;
}

int counters_read(struct counters *c, uint64_t *values, uint32_t n, uint32_t flags)
{
	struct turn *turn = &c->ctx->core->turn;
	struct counters now;

	if (flags & ~(uint32_t)IBV_READ_COUNTERS_ATTR_PREFER_CACHED)
		return -EINVAL;
	turn_take(turn);
	now = *c;
	turn_give(turn);
	if (!is_readable(&now, n)) {
		log_info("read_counters refused: room for %u values; %u points are "
			 "attached, %u rules count there",
			 n, now.points, now.flows);
		return -EINVAL;
	}
	memset(values, 0, n * sizeof(*values));
	for (unsigned i = 0; i < now.points; i++)
		values[now.point[i].index] += now.sum[now.point[i].what];
	return 0;
}

/* --- for rules ----------------------------------------------------------- */

int counters_bind(struct ibv_counters *ibv, const struct context *ctx,
		  struct counters **out)
{
	struct counters *c = counters_of(ibv);
	const void *owner;

	if (!live_find(&c->live, LIVE_COUNTERS, &owner) || owner != ctx->ibv) {
		log_info("create_flow refused: its counters do not exist, or are of "
			 "another context");
		return -EINVAL;
	}
	if (!c->points) {
		log_info("create_flow refused: nothing is attached to its counters");
		return -EINVAL;
	}
	c->flows++;
	*out = c;
	return 0;
}
