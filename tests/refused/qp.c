/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs and multicast groups; objects that other objects use are not destroyed. */
#include "refused.h"

static struct ibv_qp_init_attr good(void)
{
	return (struct ibv_qp_init_attr){ .send_cq = own.cq,
					  .recv_cq = own.cq,
					  .cap = { 1, 1, 1, 1, 0 },
					  .qp_type = IBV_QPT_RC };
}

static void create(void)
{
	struct ibv_qp_init_attr a = good();

	OBJECT(ibv_create_qp, "pd", pd, EINVAL, of_pointer, (o, &a));
	ROW(ibv_create_qp, "pd of another context", EINVAL, of_pointer, (foreign.pd, &a));
	ROW(ibv_create_qp, "qp_init_attr NULL", EINVAL, of_pointer, (own.pd, NULL));
#define SPOIL(why, want, ...)                                                            \
	do {                                                                             \
		a = good();                                                              \
		__VA_ARGS__;                                                             \
		ROW(ibv_create_qp, "qp_init_attr " why, want, of_pointer, (own.pd, &a)); \
	} while (0)
	SPOIL("send_cq NULL", EINVAL, a.send_cq = NULL);
	SPOIL("send_cq freed", EINVAL, a.send_cq = gone.cq);
	SPOIL("recv_cq NULL", EINVAL, a.recv_cq = NULL);
	SPOIL("recv_cq freed", EINVAL, a.recv_cq = gone.cq);
	SPOIL("recv_cq of another context", EINVAL, a.recv_cq = foreign.cq);
	SPOIL("srq freed", EINVAL, a.srq = gone.srq);
	SPOIL("srq of another context", EINVAL, a.srq = foreign.srq);
	SPOIL("qp_type unknown", EOPNOTSUPP, a.qp_type = (enum ibv_qp_type)77);
	SPOIL("max_send_wr above", EINVAL, a.cap.max_send_wr = UINT32_MAX);
	SPOIL("max_recv_wr above", EINVAL, a.cap.max_recv_wr = UINT32_MAX);
	SPOIL("max_send_sge above", EINVAL, a.cap.max_send_sge = UINT32_MAX);
	SPOIL("max_recv_sge above", EINVAL, a.cap.max_recv_sge = UINT32_MAX);
	SPOIL("max_inline_data above", EINVAL, a.cap.max_inline_data = UINT32_MAX);
#undef SPOIL
}

static void modify(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS };
	union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 0x76 } };

	OBJECT(ibv_modify_qp, "qp", rc, EINVAL, of_errno, (o, &a, IBV_QP_STATE));
	ROW(ibv_modify_qp, "attr NULL", EINVAL, of_errno, (own.rc, NULL, IBV_QP_STATE));
	ROW(ibv_modify_qp, "attr of a state that does not follow", EINVAL, of_errno,
	    (own.rc, &a, IBV_QP_STATE));
	ROW(ibv_modify_qp, "attr_mask unknown", EINVAL, of_errno,
	    (own.rc, &a, IBV_QP_STATE | 1 << 30));
	OBJECT(ibv_query_qp, "qp", rc, EINVAL, of_errno, (o, &a, IBV_QP_STATE, &init));
	ROW(ibv_query_qp, "attr NULL", EINVAL, of_errno,
	    (own.rc, NULL, IBV_QP_STATE, &init));
	ROW(ibv_query_qp, "init_attr NULL", EINVAL, of_errno,
	    (own.rc, &a, IBV_QP_STATE, NULL));
	ANY(ibv_query_qp, "attr_mask is a hint");
	OBJECT(ibv_destroy_qp, "qp", rc, ENOENT, of_errno, (o));
	OBJECT(ibv_qp_to_qp_ex, "qp", rc, 0, of_pointer, (o));
	ROW(ibv_qp_to_qp_ex, "qp made without send_ops", 0, of_pointer, (own.rc));
	OBJECT(ibv_attach_mcast, "qp", qp, EINVAL, of_errno, (o, &group, 0));
	ROW(ibv_attach_mcast, "qp of type RC", EINVAL, of_errno, (own.rc, &group, 0));
	ROW(ibv_attach_mcast, "gid NULL", EINVAL, of_errno, (own.qp, NULL, 0));
	ROW(ibv_attach_mcast, "gid of no group", EINVAL, of_errno, (own.qp, &gid, 0));
	ANY(ibv_attach_mcast, "lid: Ethernet has none");
	OBJECT(ibv_detach_mcast, "qp", qp, EINVAL, of_errno, (o, &group, 0));
	ROW(ibv_detach_mcast, "gid NULL", EINVAL, of_errno, (own.qp, NULL, 0));
	ROW(ibv_detach_mcast, "gid not attached", EINVAL, of_errno, (own.qp, &group, 0));
	ANY(ibv_detach_mcast, "lid: Ethernet has none");
}

void qp_rows(void)
{
	create();
	modify();
}

/* --- in the wrong order ----------------------------------------------------- */

/* Binds a type 1 window, which is done by a work request that has to complete. */
static int bind_window(struct ibv_mr *mr)
{
	struct ibv_mw_bind bind = {
		.bind_info = { .mr = mr,
			       .addr = (uintptr_t)memory,
			       .length = 64,
			       .mw_access_flags = IBV_ACCESS_REMOTE_READ },
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .path_mtu = IBV_MTU_1024,
				 .dest_qp_num = own.rc->qp_num,
				 .ah_attr = { .is_global = 1,
					      .port_num = 1,
					      .grh = { .dgid = gid, .sgid_index = 1 } } };
	const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			 IBV_QP_ACCESS_FLAGS,
		  rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		  rts = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	struct ibv_wc wc = { 0 };
	int rc = ibv_modify_qp(own.rc, &a, init);

	a.qp_state = IBV_QPS_RTR;
	rc = rc ? rc : ibv_modify_qp(own.rc, &a, rtr);
	a.qp_state = IBV_QPS_RTS;
	rc = rc ? rc : ibv_modify_qp(own.rc, &a, rts);
	rc = rc ? rc : ibv_bind_mw(own.rc, own.mw, &bind);
	while (!rc && !ibv_poll_cq(own.cq, 1, &wc))
		;
	return rc ? rc : (int)wc.status;
}

void order_rows(void)
{
	struct ibv_qp_init_attr a = good();
	struct ibv_qp *qp;

	ROW(ibv_dealloc_pd, "pd with regions, windows, handles and queues", EBUSY,
	    of_errno, (own.pd));
	ROW(ibv_destroy_comp_channel, "channel with a queue", EBUSY, of_errno,
	    (own.channel));
	ROW(ibv_destroy_cq, "cq with queue pairs", EBUSY, of_errno, (own.cq));
	ROW_OF("ibv_dereg_mr", "mr that a window is bound to", 0, bind_window, own.mr);
	ROW(ibv_dereg_mr, "mr with a bound window", EBUSY, of_errno, (own.mr));
	a.srq = own.srq;
	qp = ibv_create_qp(own.pd, &a);
	ROW(ibv_destroy_srq, "srq with a queue pair", EBUSY, of_errno, (own.srq));
	ROW(ibv_destroy_qp, "qp of the last", 0, of_errno, (qp));
}
