/* SPDX-License-Identifier: BSD-2-Clause */
/* raw.c - frames that side A sends by a raw packet QP; see raw.h. */
#include "raw.h"

#include "feature.h"

enum { PORTS_AT = 34 }; /* in a frame: Ethernet, IPv4 */

void frame_of(uint8_t at[FRAME], unsigned i)
{
	static const uint8_t head[] = { 2, 0x55, 0,    0, 0, 1,	 2,  0x55, 0, 0, 0,  9,
					8, 0,	 0x45, 0, 0, 46, 0,  0,	   0, 0, 64, 17,
					0, 0,	 10,   9, 8, 7,	 10, 1,	   2, 3 };

	memset(at, 0, FRAME);
	memcpy(at, head, sizeof(head));
	at[PORTS_AT] = (uint8_t)((1000 + i) >> 8);
	at[PORTS_AT + 1] = (uint8_t)(1000 + i);
	at[PORTS_AT + 2] = 0x12;
	at[PORTS_AT + 5] = FRAME - PORTS_AT;
	at[FRAME - 1] = (uint8_t)i;
}

struct ibv_qp *raw_qp(struct side *s, uint32_t receives)
{
	struct ibv_qp_init_attr init = { .send_cq = s->scq,
					 .recv_cq = s->rcq,
					 .qp_type = IBV_QPT_RAW_PACKET,
					 .cap = { FRAMES, receives, 1, 1, 0 } };
	struct ibv_qp_attr a = { .port_num = 1 };
	struct ibv_qp *qp = ibv_create_qp(s->pd, &init);

	for (int to = IBV_QPS_INIT; qp && to <= IBV_QPS_RTS; to++) {
		a.qp_state = (enum ibv_qp_state)to;
		CHECK(!ibv_modify_qp(qp, &a,
				     to == IBV_QPS_INIT ? IBV_QP_STATE | IBV_QP_PORT
							: IBV_QP_STATE));
	}
	return qp;
}

bool raw_here(void)
{
	bool cannot = false;

	ON_A(s) cannot = !(s->qp = raw_qp(s, 1));
	ON_B(s)
	{
		struct ibv_qp *qp = raw_qp(s, 1);

		cannot = !qp;
		CHECK(!qp || !ibv_destroy_qp(qp));
	}
	if (cannot) {
		CHECK(errno == EPERM || errno == EOPNOTSUPP);
		left_out("no raw packet QPs here");
	}
	return !cannot;
}
