/* SPDX-License-Identifier: BSD-2-Clause */
/* verbs.h - the set-up of verbs.c's cases: two connected QPs of one process, on the
 * loopback device. */
#ifndef TESTS_ABI_VERBS_H
#define TESTS_ABI_VERBS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(cond)                                                                      \
	do {                                                                             \
		if (!(cond)) {                                                           \
			fprintf(stderr, "%s:%d: not so: %s (errno %d: %s)\n", __func__,  \
				__LINE__, #cond, errno, strerror(errno));                \
			_exit(1);                                                        \
		}                                                                        \
	} while (0)

enum {
	BIG = 1 << 20,	/* bytes; buf has twice as many */
	FAR = BIG,	/* offset in buf of the target of WRITEs */
	RECV_AT = 4096, /* offset in buf of receives */
	RECV_ID = 77,
	QKEY = 0x11223344,
};

struct rig {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq; /* the CQ of all queues; cq_ex is the same CQ */
	struct ibv_cq_ex *cq_ex;
	struct ibv_mr *mr;
	struct ibv_qp *a, *b; /* a sends to b */
	struct ibv_ah *ah;    /* leads to b */
	union ibv_gid gid;
	uint8_t gid_index;
	uint8_t *buf;
};

static inline void up(struct rig *r, struct ibv_qp *qp, uint32_t peer)
{
	const int ud = qp->qp_type == IBV_QPT_UD;
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = r->gid,
				      .sgid_index = r->gid_index,
				      .hop_limit = 1 } },
	};

	CHECK(!ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	a.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &a,
			     ud ? IBV_QP_STATE
				: IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					     IBV_QP_MAX_DEST_RD_ATOMIC |
					     IBV_QP_MIN_RNR_TIMER));
	a.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &a,
			     ud ? IBV_QP_STATE | IBV_QP_SQ_PSN
				: IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					     IBV_QP_MAX_QP_RD_ATOMIC));
}

static inline void pair(struct rig *r, enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = r->cq,
		.recv_cq = r->cq,
		.srq = srq,
		.qp_type = type,
		.cap = { 16, 16, 2, 2, 32 },
		.pd = r->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = type == IBV_QPT_UD
					  ? IBV_QP_EX_WITH_SEND
					  : IBV_QP_EX_WITH_SEND |
						    IBV_QP_EX_WITH_SEND_WITH_IMM |
						    IBV_QP_EX_WITH_RDMA_WRITE |
						    IBV_QP_EX_WITH_RDMA_READ |
						    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	};
	struct ibv_ah_attr to = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = r->gid, .sgid_index = r->gid_index, .hop_limit = 1 }
	};

	CHECK((r->a = ibv_create_qp_ex(r->ctx, &init)));
	CHECK((r->b = ibv_create_qp_ex(r->ctx, &init)));
	CHECK((r->ah = ibv_create_ah(r->pd, &to)));
	up(r, r->a, r->b->qp_num);
	up(r, r->b, r->a->qp_num);
}

static inline void unpair(struct rig *r)
{
	CHECK(!ibv_destroy_qp(r->a) && !ibv_destroy_qp(r->b));
	CHECK(!ibv_destroy_ah(r->ah));
	r->a = r->b = NULL;
}

/* The loopback interface's RoCE device; its GID 1 is 127.0.0.1. */
static inline void rig_open(struct rig *r)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 64,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	struct ibv_device **list;
	int n;

	memset(r, 0, sizeof(*r));
	CHECK((list = ibv_get_device_list(&n)) && n > 0);
	CHECK((r->ctx = ibv_open_device(list[n / 2 - 1])));
	ibv_free_device_list(list);
	r->gid_index = 1;
	CHECK(!ibv_query_gid(r->ctx, 1, r->gid_index, &r->gid));
	CHECK((r->pd = ibv_alloc_pd(r->ctx)));
	CHECK((r->cq_ex = ibv_create_cq_ex(r->ctx, &attr)));
	r->cq = ibv_cq_ex_to_cq(r->cq_ex);
	CHECK((r->buf = calloc(2, BIG)));
	CHECK((r->mr = ibv_reg_mr(r->pd, r->buf, 2 * BIG,
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					  IBV_ACCESS_REMOTE_READ |
					  IBV_ACCESS_REMOTE_ATOMIC |
					  IBV_ACCESS_MW_BIND)));
	pair(r, IBV_QPT_RC, NULL);
}

static inline void rig_close(struct rig *r)
{
	if (r->a)
		unpair(r);
	CHECK(!ibv_dereg_mr(r->mr));
	CHECK(!ibv_destroy_cq(r->cq));
	CHECK(!ibv_dealloc_pd(r->pd));
	CHECK(!ibv_close_device(r->ctx));
	free(r->buf);
}

/* Waits for the next completion, 10 s at most. */
static inline struct ibv_wc take(struct rig *r)
{
	time_t end = time(NULL) + 10;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(r->cq, 1, &wc)))
		CHECK(time(NULL) < end);
	CHECK(n == 1);
	return wc;
}

static inline void post(struct rig *r, struct ibv_send_wr *wr, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)r->buf, length, r->mr->lkey };
	struct ibv_send_wr *bad;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags = IBV_SEND_SIGNALED;
	CHECK(!ibv_post_send(r->a, wr, &bad));
}

static inline void write_one(struct rig *r, uint32_t rkey, uint32_t length)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { (uintptr_t)r->buf + FAR, rkey } };

	post(r, &wr, length);
}

static inline void send_one(struct rig *r, uint32_t length)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
				  .wr.ud = { r->ah, r->b->qp_num, QKEY } };

	post(r, &wr, length);
}

static inline void recv_one(struct rig *r, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)r->buf + RECV_AT, length, r->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = RECV_ID, .sg_list = &sge, .num_sge = 1 };

	CHECK(!ibv_post_recv(r->b, &wr, &bad));
}

/* verbs_process.c: */
void forks(struct rig *r);
void iwarp_device(struct rig *r);
void polls_inside(struct rig *r);
void handlers(struct rig *r);
void closes_with_qps_left(struct rig *r);
void cancelled(struct rig *r);
/* verbs_domain.c: */
void parent_domain(struct rig *r);
void imports(struct rig *r);
/* verbs_leaks.c: */
void nothing_is_left(struct rig *r);
/* verbs_close.c: */
void outlived(struct rig *r);
void imports_go(struct rig *r);
void exporter_closes(struct rig *r);
void nothing_outlives(struct rig *r);
/* verbs_memory.c: */
void device_memory(struct rig *r);
void device_memory_of_another(struct rig *r);
void device_memory_of_a_child(struct rig *r);
void null_region(struct rig *r);
void advice(struct rig *r);

#endif
