/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - for unit tests: a context with a NIC that answers as it is told, a CQ, and a
 * queue pair, with all checks in front. */
#ifndef CHECK_FIX_H
#define CHECK_FIX_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check/attach.h"
#include "check/object.h"
#include "check/report.h"
#include "sys/checks.h"
#include "sys/log_testing.h"
#include "verbs/cq.h"
#include "verbs/qp.h"

enum { FIX_DEPTH = 4, FIX_QPN = 0x123456 };

static struct fix {
	struct verbs_context v;
	struct cq cq;
	struct qp qp;
	int rc;		     /* what posts answer, */
	unsigned good;	     /* after so many requests of a list */
	struct ibv_wc wc[8]; /* what polls answer: the first n */
	int n;
	unsigned posted; /* requests that the NIC has taken */
	char log[8192];
} fix;

static int fix_nic_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
			struct ibv_send_wr **bad)
{
	(void)qp;
	for (unsigned i = 0; wr; wr = wr->next, i++) {
		if (fix.rc && i == fix.good) {
			*bad = wr;
			return fix.rc;
		}
		fix.posted++;
	}
	return 0;
}

static int fix_nic_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
			struct ibv_recv_wr **bad)
{
	(void)qp;
	*bad = wr;
	fix.posted += !fix.rc;
	return fix.rc;
}

static int fix_nic_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			    struct ibv_recv_wr **bad)
{
	(void)srq;
	*bad = wr;
	return fix.rc;
}

static int fix_nic_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = fix.n < n ? fix.n : n;

	(void)cq;
	memcpy(wc, fix.wc, (size_t)got * sizeof(*wc));
	fix.n = 0;
	return got;
}

static int fix_nic_arm(struct ibv_cq *cq, int solicited_only)
{
	(void)cq, (void)solicited_only;
	return 0;
}

/* cap: places of each queue */
static void fix_make(enum ibv_qp_type type)
{
	fix.qp.ex.qp_base.context = &fix.v.context;
	fix.qp.qpn = fix.qp.ex.qp_base.qp_num = FIX_QPN;
	fix.qp.type = fix.qp.ex.qp_base.qp_type = type;
	fix.qp.send_cq = fix.qp.recv_cq = &fix.cq;
	fix.qp.init.cap = (struct ibv_qp_cap){ .max_send_wr = FIX_DEPTH,
					       .max_recv_wr = FIX_DEPTH,
					       .max_send_sge = 2,
					       .max_recv_sge = 2 };
	fix.cq.ex.context = &fix.v.context;
	object_made(&fix.cq.live, LIVE_CQ);
	object_made(&fix.qp.live, LIVE_QP);
	if (checks) {
		checks->ready(&fix.cq.live, LIVE_CQ);
		checks->ready(&fix.qp.live, LIVE_QP);
	}
}

/* Uses the checks of that list (URNIC_CHECK), once in a program. */
static inline void fix_open(const char *list)
{
	memset(&fix, 0, sizeof(fix));
	fix.v.context.ops.post_send = fix_nic_send;
	fix.v.context.ops.post_recv = fix_nic_recv;
	fix.v.context.ops.post_srq_recv = fix_nic_srq_recv;
	fix.v.context.ops.poll_cq = fix_nic_poll;
	fix.v.context.ops.req_notify_cq = fix_nic_arm;
	setenv("URNIC_CHECK", list, 1);
	assert_int_equal(check_attach(&fix.v), 0);
	fix_make(IBV_QPT_RC);
}

static inline struct check_qp *fix_qp(void)
{
	return object_qp(&fix.qp.ex.qp_base);
}

static inline int fix_send(uint64_t wr_id, unsigned flags)
{
	struct ibv_sge sge = { 0x1000, 64, 1 };
	struct ibv_send_wr wr = { .wr_id = wr_id,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = flags,
				  .wr.rdma = { 0x2000, 2 } };
	struct ibv_send_wr *bad = NULL;

	return ibv_post_send(&fix.qp.ex.qp_base, &wr, &bad);
}

/* Posts a request of one SGE. Inline, so that each call is a place of its own. */
static inline __attribute__((always_inline)) int fix_post(enum ibv_wr_opcode opcode,
							  uint64_t wr_id,
							  struct ibv_sge sge,
							  unsigned flags)
{
	struct ibv_send_wr *bad, wr = { .wr_id = wr_id,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = opcode,
					.send_flags = flags };

	return ibv_post_send(&fix.qp.ex.qp_base, &wr, &bad);
}

static inline int fix_post_recv(uint64_t wr_id, struct ibv_sge sge)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_recv(&fix.qp.ex.qp_base, &wr, &bad);
}

static inline int fix_recv(uint64_t wr_id)
{
	return fix_post_recv(wr_id, (struct ibv_sge){ 0x1000, 64, 1 });
}

/* Polls one completion; returns what the program sees. */
static inline struct ibv_wc fix_reap(uint64_t wr_id, enum ibv_wc_opcode opcode,
				     enum ibv_wc_status status)
{
	struct ibv_wc wc = { 0 };

	fix.wc[0] = (struct ibv_wc){ .wr_id = wr_id,
				     .opcode = opcode,
				     .status = status,
				     .byte_len = 64,
				     .qp_num = FIX_QPN };
	fix.n = 1;
	assert_int_equal(ibv_poll_cq((struct ibv_cq *)&fix.cq.ex, 1, &wc), 1);
	return wc;
}

/* The log of what `call` reports. */
/* What was reported before is reported again. */
#define FIX_LOG(call)                                                                    \
	do {                                                                             \
		report_start("", false);                                                 \
		LOGGED(fix.log, "error", call);                                          \
	} while (0)
#define FIX_FINDS(name, call)                                                            \
	do {                                                                             \
		FIX_LOG(call);                                                           \
		if (!strstr(fix.log, "error: check " name ": "))                         \
			fail_msg("%s is not found: %s", name, fix.log);                  \
	} while (0)
#define FIX_FINDS_NOTHING(call)                                                          \
	do {                                                                             \
		FIX_LOG(call);                                                           \
		assert_string_equal(fix.log, "");                                        \
	} while (0)

#endif
