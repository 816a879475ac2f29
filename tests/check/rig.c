/* SPDX-License-Identifier: BSD-2-Clause */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bugs.h"

void bug_failed(const char *what, const char *file, int line)
{
	fprintf(stderr, "FAILED %s:%d: %s (errno %m)\n", file, line, what);
	exit(3);
}

void rig_sleep(unsigned ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000l };

	nanosleep(&ts, NULL);
}

static void *ack_one(void *cq)
{
	rig_sleep(100);
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

void rig_ack_later(struct ibv_cq *cq)
{
	pthread_t thread;

	MUST(!pthread_create(&thread, NULL, ack_one, cq) && !pthread_detach(thread));
}

static struct ibv_qp *make_qp(struct rig *r, const struct rig_how *how)
{
	struct ibv_qp_init_attr init = {
		.send_cq = r->cq,
		.recv_cq = r->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = how->depth ? how->depth : RIG_DEPTH,
			 .max_recv_wr = how->depth ? how->depth : RIG_DEPTH,
			 .max_send_sge = 2,
			 .max_recv_sge = 2,
			 .max_inline_data = 16 },
	};
	struct ibv_qp *qp = ibv_create_qp(r->pd, &init);

	MUST(qp);
	return qp;
}

static void to_init(struct ibv_qp *qp, const struct rig_how *how)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = how->qp_access ? how->qp_access : RIG_ALL,
	};

	MUST(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    IBV_QP_ACCESS_FLAGS));
}

static const struct rig_how usual;

struct ibv_qp *rig_qp(struct rig *r, const struct rig_how *how)
{
	struct ibv_qp *qp = make_qp(r, how ? how : &usual);

	to_init(qp, how ? how : &usual);
	return qp;
}

static void to_rts(struct rig *r, struct ibv_qp *qp, uint32_t dest,
		   const struct rig_how *how, bool first)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = first && how->mtu_a ? (enum ibv_mtu)how->mtu_a : IBV_MTU_1024,
		.dest_qp_num = dest,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = r->gid, .hop_limit = 1 } },
	};

	MUST(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = (uint8_t)(how->timeout ? how->timeout : 14),
		.retry_cnt = 7,
		.rnr_retry = (uint8_t)(how->rnr_retry < 0 ? 0 : 7),
		.max_rd_atomic = 4,
	};
	MUST(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				    IBV_QP_MAX_QP_RD_ATOMIC));
}

void rig_connect(struct rig *r, const struct rig_how *how)
{
	to_rts(r, r->a, r->b->qp_num, how ? how : &usual, true);
	to_rts(r, r->b, r->a->qp_num, how ? how : &usual, false);
}

void rig_open(struct rig *r, const struct rig_how *how)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!how)
		how = &usual;
	memset(r, 0, sizeof(*r));
	MUST(list && list[0]);
	r->ctx = ibv_open_device(list[0]);
	MUST(r->ctx && !ibv_query_gid(r->ctx, 1, 0, &r->gid));
	ibv_free_device_list(list);
	r->pd = ibv_alloc_pd(r->ctx);
	r->buf = mmap(NULL, RIG_BUF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	MUST(r->pd && r->buf != MAP_FAILED);
	r->channel = how->no_channel ? NULL : ibv_create_comp_channel(r->ctx);
	MUST(r->channel || how->no_channel);
	r->cq = ibv_create_cq(r->ctx, (int)(how->cqe ? how->cqe : 4 * RIG_DEPTH), NULL,
			      r->channel, 0);
	r->mr = ibv_reg_mr(r->pd, r->buf, RIG_BUF,
			   how->access ? how->access : (unsigned)RIG_ALL);
	MUST(r->cq && r->mr);
	r->a = rig_qp(r, how);
	r->b = rig_qp(r, how);
}

void rig_close(struct rig *r)
{
	if (r->a)
		MUST(!ibv_destroy_qp(r->a));
	if (r->b)
		MUST(!ibv_destroy_qp(r->b));
	if (r->mr)
		MUST(!ibv_dereg_mr(r->mr));
	MUST(!ibv_destroy_cq(r->cq));
	if (r->channel)
		MUST(!ibv_destroy_comp_channel(r->channel));
	MUST(!ibv_dealloc_pd(r->pd) && !ibv_close_device(r->ctx));
	munmap(r->buf, RIG_BUF);
}

struct ibv_send_wr *rig_wr(struct rig *r, enum ibv_wr_opcode op, unsigned at,
			   unsigned len, bool signaled)
{
	static struct ibv_send_wr wr;
	static struct ibv_sge sge;
	static uint64_t id;

	sge = (struct ibv_sge){ (uintptr_t)r->buf + at, len, r->mr ? r->mr->lkey : 0 };
	wr = (struct ibv_send_wr){
		.wr_id = ++id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = op,
		.send_flags = signaled ? IBV_SEND_SIGNALED : 0,
	};
	wr.wr.rdma.remote_addr = (uintptr_t)r->buf + at + RIG_BUF / 2;
	wr.wr.rdma.rkey = r->mr ? r->mr->rkey : 0;
	return &wr;
}

int rig_post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(qp, wr, &bad);
}

int rig_recv(struct rig *r, struct ibv_qp *qp, unsigned at, unsigned len)
{
	struct ibv_sge sge = { (uintptr_t)r->buf + at, len, r->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 1000 + at, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	return ibv_post_recv(qp, &wr, &bad);
}

struct ibv_wc rig_wait(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	time_t end = time(NULL) + 10;
	int n;

	do
		n = ibv_poll_cq(cq, 1, &wc);
	while (!n && time(NULL) <= end);
	MUST(n == 1);
	return wc;
}
