/* SPDX-License-Identifier: BSD-2-Clause */
/* renamed.c - connects two new RC QPs of its own and sends itself a datagram, again and
 * again, and prints whenever this begins or ceases to work.  It must not cease for long
 * when an interface is renamed, or deleted and made again. */
#include <errno.h>
#include <string.h>

#include "rig.h"

enum { QKEY = 0x1234, GRH = 40, LEN = 100 };

static struct rig r;
static struct ibv_qp *ud;

static struct ibv_qp *ud_open(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = r.cq,
		.recv_cq = r.cq,
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 4,
			 .max_recv_wr = RIG_DEPTH,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = QKEY,
	};
	struct ibv_qp *qp = ibv_create_qp(r.pd, &init);

	CHECK(qp);
	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	return qp;
}

static bool poll_for(enum ibv_wc_opcode opcode)
{
	double end = now_s() + 0.3;
	struct ibv_wc wc;

	while (now_s() < end)
		if (ibv_poll_cq(r.cq, 1, &wc) == 1 && wc.opcode == opcode)
			return wc.status == IBV_WC_SUCCESS;
	return false;
}

static bool datagram(void)
{
	struct ibv_sge out = { (uintptr_t)r.buf, LEN, r.mr->lkey };
	struct ibv_sge in = { (uintptr_t)r.buf + 4096, GRH + LEN, r.mr->lkey };
	struct ibv_recv_wr rwr = { .sg_list = &in, .num_sge = 1 }, *rbad;
	struct ibv_ah_attr to = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .sgid_index = (uint8_t)opt.gid, .dgid = r.gid, .hop_limit = 64 }
	};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = &out, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .remote_qpn = ud->qp_num, .remote_qkey = QKEY },
	}, *bad;
	bool came;

	wr.wr.ud.ah = ibv_create_ah(r.pd, &to);
	if (!wr.wr.ud.ah)
		return false;
	/* Fails if the queue is full of earlier receives. */
	(void)ibv_post_recv(ud, &rwr, &rbad);
	CHECK(!ibv_post_send(ud, &wr, &bad));
	came = poll_for(IBV_WC_RECV);
	CHECK(!ibv_destroy_ah(wr.wr.ud.ah));
	return came;
}

static bool to_rtr(struct ibv_qp *qp)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.rq_psn = 5,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = r.gid,
				      .sgid_index = (uint8_t)opt.gid,
				      .hop_limit = 64 } },
	};

	return ibv_modify_qp(qp, &rtr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ==
	       0;
}

static bool connects(void)
{
	struct ibv_qp *qp = rig_qp(&r);
	bool yes = to_rtr(qp);

	CHECK(!ibv_destroy_qp(qp));
	return yes;
}

int renamed(void)
{
	bool did = false, first = true;

	rig_open(&r);
	ud = ud_open();
	for (;;) {
		bool does = connects() && datagram();

		if (first || does != did)
			say("%s", does ? "works" : "fails");
		first = false;
		did = does;
		sleep_ms(10);
	}
}
