/* SPDX-License-Identifier: BSD-2-Clause */
/* flow.c - rules of what raw packet QPs receive (ibv_create_flow). */
#include "abi/abi.h"
#include "core/qp.h"
#include "packet/packet.h"

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
