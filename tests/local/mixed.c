/* SPDX-License-Identifier: BSD-2-Clause */
/* mixed.c - one CQ, one SRQ and one counter, used by QPs of the same host and of
 * the wire at once.  A process of two talks to the hub with URNIC_LOCAL=off. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "pattern.h"

enum {
	LOCAL,
	WIRE,
	SIDES,
	QPS = 2,
	SRQ_WRS = 24,
	LEN = 4000,
	MSGS = 1500,
	COUNTER = 0,
	OUT = 4096,
	OLD = 16,
	RECVS = 65536
};
enum { TOTAL = SIDES * QPS * MSGS };

static struct {
	struct card hub[SIDES][QPS], spoke[SIDES][QPS];
	_Atomic uint32_t hub_is_there, spoke_is_there[SIDES], ready, done;
	_Atomic uint32_t seen[2 * TOTAL]; /* values that the counter has had */
	_Atomic uint32_t added;
} * sh;

static struct rig r;

static void add_one(struct ibv_qp *qp, const struct card *to)
{
	uint64_t old;

	crew_expect(&r, qp, to, IBV_WR_ATOMIC_FETCH_AND_ADD, OLD, 8, COUNTER);
	memcpy(&old, r.buf + OLD, 8);
	CHECK(old < 2 * TOTAL && atomic_fetch_add(&sh->seen[old], 1) == 0);
	sh->added++;
}

static void spoke(void *arg)
{
	int side = *(int *)arg;
	struct ibv_qp *qp[QPS];
	uint64_t seed;

	if (side == WIRE)
		setenv("URNIC_LOCAL", "off", 1);
	rig_open(&r);
	for (int i = 0; i < QPS; i++) {
		qp[i] = rig_qp(&r);
		sh->spoke[side][i] = crew_card(&r, qp[i]);
	}
	sh->spoke_is_there[side] = 1;
	crew_wait(&sh->hub_is_there, 1);
	for (int i = 0; i < QPS; i++)
		crew_join(&r, qp[i], &sh->hub[side][i]);
	crew_wait(&sh->ready, 1);
	for (unsigned n = 0; n < QPS * MSGS; n++) {
		seed = mix(n) ^ (uint64_t)side;
		memcpy(r.buf + OUT, &seed, 8);
		pattern_fill(r.buf + OUT + 8, LEN - 8, seed);
		rig_post(&r, qp[n % QPS], IBV_WR_SEND, OUT, 8 + seed % (LEN - 8), 0, 0,
			 0);
		CHECK(rig_wait(&r).status == IBV_WC_SUCCESS);
		add_one(qp[n % QPS], &sh->hub[side][n % QPS]);
	}
	sh->done++;
	crew_wait(&sh->done, SIDES + 1);
	for (int i = 0; i < QPS; i++)
		CHECK(!ibv_destroy_qp(qp[i]));
	rig_close(&r);
}

/* --- the hub ------------------------------------------------------------- */

static void post_recv(struct ibv_srq *srq, uint64_t i)
{
	struct ibv_sge sge = {
		(uintptr_t)r.buf + RECVS + i * LEN,
		LEN,
		r.mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
}

static struct ibv_qp *qp_with(struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = r.cq,
		.recv_cq = r.cq,
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = RIG_ACCESS,
	};
	struct ibv_qp *qp = ibv_create_qp(r.pd, &init);

	CHECK(qp && !ibv_modify_qp(qp, &attr,
				   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					   IBV_QP_ACCESS_FLAGS));
	return qp;
}

static int side_of(uint32_t qpn)
{
	for (int s = 0; s < SIDES; s++)
		for (int i = 0; i < QPS; i++)
			if (sh->hub[s][i].qpn == qpn)
				return s;
	failed("a QP of ours", __FILE__, __LINE__);
}

static void take_all(struct ibv_srq *srq)
{
	unsigned got[SIDES] = { 0 };

	for (unsigned n = 0; n < TOTAL; n++) {
		struct ibv_wc wc = rig_wait(&r);
		const uint8_t *msg = r.buf + RECVS + wc.wr_id * LEN;
		uint64_t seed;
		int side;

		CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
		side = side_of(wc.qp_num);
		memcpy(&seed, msg, 8);
		CHECK(wc.byte_len == 8 + seed % (LEN - 8));
		CHECK(pattern_check(msg + 8, wc.byte_len - 8, seed) == wc.byte_len - 8);
		got[side]++;
		post_recv(srq, wc.wr_id);
	}
	CHECK(got[LOCAL] == QPS * MSGS && got[WIRE] == QPS * MSGS);
}

static void be_hub(void)
{
	struct ibv_srq_init_attr init = {
		.attr = { .max_wr = SRQ_WRS, .max_sge = 1 },
	};
	struct ibv_qp *qp[SIDES][QPS];
	struct ibv_srq *srq;

	rig_open(&r);
	srq = ibv_create_srq(r.pd, &init);
	CHECK(srq);
	for (uint64_t i = 0; i < SRQ_WRS; i++)
		post_recv(srq, i);
	for (int s = 0; s < SIDES; s++)
		for (int i = 0; i < QPS; i++) {
			qp[s][i] = qp_with(srq);
			sh->hub[s][i] = crew_card(&r, qp[s][i]);
		}
	for (int s = 0; s < SIDES; s++) {
		crew_wait(&sh->spoke_is_there[s], 1);
		for (int i = 0; i < QPS; i++)
			crew_join(&r, qp[s][i], &sh->spoke[s][i]);
	}
	sh->hub_is_there = sh->ready = 1;
	take_all(srq);
	crew_wait(&sh->done, SIDES);
	sh->done++;
	for (int s = 0; s < SIDES; s++)
		for (int i = 0; i < QPS; i++)
			CHECK(!ibv_destroy_qp(qp[s][i]));
	CHECK(!ibv_destroy_srq(srq));
}

int mixed(void)
{
	pid_t pid[SIDES];
	uint64_t sum;

	sh = crew_share(sizeof(*sh));
	for (int s = 0; s < SIDES; s++)
		pid[s] = crew_fork(spoke, &s);
	be_hub();
	memcpy(&sum, r.buf + COUNTER, 8);
	CHECK(sum == sh->added && sum == TOTAL);
	for (unsigned i = 0; i < TOTAL; i++)
		CHECK(sh->seen[i] == 1);
	for (int s = 0; s < SIDES; s++)
		crew_reap(pid[s]);
	rig_close(&r);
	say("%d messages, all right", TOTAL);
	return 0;
}
