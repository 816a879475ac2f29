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

static bool connects(void)
{
	struct ibv_qp *qp = rig_qp(&r);
	bool yes = !rig_rtr(qp, qp->qp_num, 5, &r.gid);

	CHECK(!ibv_destroy_qp(qp));
	return yes;
}

int renamed(void)
{
	bool did = false, first = true;

	rig_open(&r);
	ud = rig_ud(&r, RIG_DEPTH, QKEY);
	for (;;) {
		bool does = connects() && datagram();

		if (first || does != did)
			say("%s", does ? "works" : "fails");
		first = false;
		did = does;
		sleep_ms(10);
	}
}
