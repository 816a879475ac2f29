/* SPDX-License-Identifier: BSD-2-Clause */
/* bench_verbs.h - opens a device by its name, and moves an RC QP from RESET to RTS. */
#ifndef BENCH_VERBS_H
#define BENCH_VERBS_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

/* Opens the device of that name; NULL: the first one. */
static inline struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	for (int i = 0; list && list[i] && !ctx; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		errx(1, "no device %s", name ? name : "at all");
	ibv_free_device_list(list);
	return ctx;
}

static inline void to_init(struct ibv_qp *qp, unsigned access)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = access };

	must(!ibv_modify_qp(qp, &init,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    IBV_QP_ACCESS_FLAGS),
	     "INIT");
}

/* The other end of a QP; each end may have `reads` READs and atomics outstanding. */
struct far_end {
	uint32_t qpn;
	union ibv_gid gid;
	uint8_t sgid_index, reads, timeout;
	enum ibv_mtu mtu; /* 0: 1,024 bytes */
	uint32_t rq_psn;
};

static inline void to_rtr(struct ibv_qp *qp, const struct far_end *to)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = to->mtu ? to->mtu : IBV_MTU_1024,
		.rq_psn = to->rq_psn,
		.dest_qp_num = to->qpn,
		.max_dest_rd_atomic = to->reads,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = to->gid,
				      .sgid_index = to->sgid_index,
				      .hop_limit = 64 } },
	};

	must(!ibv_modify_qp(qp, &rtr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	     "RTR");
}

static inline void to_rts(struct ibv_qp *qp, const struct far_end *to)
{
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = to->timeout,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = to->reads,
	};

	must(!ibv_modify_qp(qp, &rts,
			    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				    IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

/* Waits until another process, which shares the memory, has set the flag. */
static inline void until(const _Atomic bool *flag)
{
	while (!atomic_load(flag))
		usleep(1000);
}

#endif
