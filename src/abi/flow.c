/* SPDX-License-Identifier: BSD-2-Clause */
/* flow.c - rules for what raw packet QPs receive (ibv_create_flow), and their
 * counters. */
#include "abi/abi.h"
#include "raw/packet.h"
#include "verbs/qp.h"

struct ibv_flow *abi_create_flow(struct ibv_qp *ibv, struct ibv_flow_attr *attr)
{
	struct flow *flow;

	if (!abi_enter_on(LIVE(qp_of, ibv), LIVE_QP, EINVAL))
		return NULL;
	if (abi_leave(attr ? flow_create(qp_of(ibv), attr, &flow) : -EINVAL))
		return NULL;
	return &flow->ibv;
}

int abi_destroy_flow(struct ibv_flow *ibv)
{
	if (!abi_enter_on(LIVE(flow_of, ibv), LIVE_FLOW, EINVAL))
		return errno;
	flow_destroy(flow_of(ibv));
	return abi_leave(0);
}

struct ibv_counters *abi_create_counters(struct ibv_context *ibv,
					 struct ibv_counters_init_attr *attr)
{
	struct counters *c;

	if (!GIVEN("create_counters", attr))
		return NULL;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return NULL;
	return abi_leave(counters_create(&abi_of(ibv)->ctx, attr, &c)) ? NULL : &c->ibv;
}

/* Nothing can be attached to an existing rule, as with other adapters. */
int abi_attach_counters_point_flow(struct ibv_counters *ibv,
				   struct ibv_counter_attach_attr *attr,
				   struct ibv_flow *flow)
{
	struct ibv_context *ctx;
	int rc;

	if (!GIVEN("attach_counters_point_flow", attr))
		return errno;
	ctx = abi_enter_on(LIVE(counters_of, ibv), LIVE_COUNTERS, EINVAL);
	if (!ctx)
		return errno;
	rc = abi_check("attach_counters_point_flow", LIVE(flow_of, flow), LIVE_FLOW, ctx);
	if (!rc && flow)
		rc = -EOPNOTSUPP;
	return abi_leave(rc ? rc : counters_attach(counters_of(ibv), attr));
}

int abi_read_counters(struct ibv_counters *ibv, uint64_t *values, uint32_t n,
		      uint32_t flags)
{
	if (!GIVEN("read_counters", values))
		return errno;
	if (!abi_enter_on(LIVE(counters_of, ibv), LIVE_COUNTERS, EINVAL))
		return errno;
	return abi_leave(counters_read(counters_of(ibv), values, n, flags));
}

int abi_destroy_counters(struct ibv_counters *ibv)
{
	if (!abi_enter_on(LIVE(counters_of, ibv), LIVE_COUNTERS, ENOENT))
		return errno;
	return abi_leave(counters_destroy(counters_of(ibv)));
}
