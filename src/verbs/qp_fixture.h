/* SPDX-License-Identifier: BSD-2-Clause */
/* qp_fixture.h - for unit tests of QPs: a core with one device on 10.0.0.1, a PD, two
 * CQs, and a fake transport that records its calls. */
#ifndef VERBS_QP_FIXTURE_H
#define VERBS_QP_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/addr_testing.h"
#include "verbs/core.h"
#include "verbs/cq.h"
#include "verbs/event.h"
#include "verbs/mr.h"
#include "verbs/netport.h"
#include "verbs/qp.h"
#include "verbs/transport.h"

enum {
	FIX_SLOT = 5,
	TO_INIT_RC = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	TO_INIT_UD = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
	TO_RTR_UC = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		    IBV_QP_RQ_PSN,
	TO_RTR_RC = TO_RTR_UC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	TO_RTS_UD = IBV_QP_STATE | IBV_QP_SQ_PSN,
	TO_RTS_RC = TO_RTS_UD | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		    IBV_QP_MAX_QP_RD_ATOMIC,
};

/* The calls that the fake transport recorded, and the results it is to return. */
static struct {
	int opened, closed, entered;
	enum ibv_qp_state from, to;
	int open_rc, enter_rc;
	bool drain_at_once;
} fake;

static int fake_open(struct qp *qp)
{
	assert_int_equal(qp->state, IBV_QPS_RESET);
	if (fake.open_rc)
		return fake.open_rc;
	fake.opened++;
	return 0;
}

static void fake_close(struct qp *qp)
{
	(void)qp;
	fake.closed++;
}

static int fake_enter(struct qp *qp, enum ibv_qp_state from, uint64_t now)
{
	(void)now;
	qp_is_held(qp);
	fake.entered++;
	fake.from = from;
	fake.to = qp->state;
	if (qp->state == IBV_QPS_SQD && fake.drain_at_once)
		qp_drained(qp);
	return fake.enter_rc;
}

static const struct transport fake_transport = {
	.name = "fake",
	.open = fake_open,
	.close = fake_close,
	.enter = fake_enter,
};

struct fix {
	struct core core;
	struct device *dev;
	struct ibv_context ibv;
	struct context ctx;
	struct pd *pd;
	struct cq *scq, *rcq;
};

static struct fix *fix_open(int cqe)
{
	static const struct netdev net = {
		.name = "veth0",
		.ifindex = 7,
		.mac = { 2, 0, 0, 0, 0, 1 },
		.mtu = 1500,
		.payload = 1416,
		.running = true,
		.naddrs = 1,
		.addr = { { { [10] = 0xff, 0xff, 10, 0, 0, 1 } } },
	};
	static const struct identity id = { .fw_ver = "1" };
	struct fix *f = test_calloc(1, sizeof(*f));

	memset(&fake, 0, sizeof(fake));
	assert_int_equal(core_init(&f->core, FIX_SLOT), 0);
	assert_int_equal(device_create(&device_roce, &net, &id, &f->dev), 0);
	f->dev->core = &f->core;
	f->ctx.core = &f->core;
	f->ctx.dev = f->dev;
	f->ctx.link = &test_link;
	f->ctx.ibv = &f->ibv;
	f->ibv.device = &f->dev->ibv;
	list_init(&f->ctx.node);
	assert_int_equal(event_queue_init(&f->ctx.async), 0);
	assert_int_equal(fcntl(f->ctx.async.fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(pd_alloc(&f->core, &f->ibv, &f->pd), 0);
	assert_int_equal(cq_create(&f->ctx, cqe, NULL, NULL, &f->scq), 0);
	assert_int_equal(cq_create(&f->ctx, cqe, NULL, NULL, &f->rcq), 0);
	return f;
}

static void fix_close(struct fix *f)
{
	assert_int_equal(cq_destroy(f->scq), 0);
	assert_int_equal(cq_destroy(f->rcq), 0);
	assert_int_equal(pd_free(f->pd), 0);
	event_queue_fini(&f->ctx.async);
	free(f->dev);
	core_fini(&f->core);
	test_free(f);
}

static struct ibv_qp_init_attr_ex fix_init(struct fix *f, enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = (struct ibv_cq *)&f->scq->ex,
		.recv_cq = (struct ibv_cq *)&f->rcq->ex,
		.cap = { .max_send_wr = 8,
			 .max_recv_wr = 8,
			 .max_send_sge = 4,
			 .max_recv_sge = 4,
			 .max_inline_data = 64 },
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = &f->pd->ibv,
	};
}

static inline struct qp *fix_qp(struct fix *f, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex a = fix_init(f, type);
	struct qp *qp;

	assert_int_equal(qp_create(&f->ctx, &a, &fake_transport, &qp), 0);
	return qp;
}

/* Valid values for every attribute; the mask selects those that are used. */
static inline struct ibv_qp_attr fix_attr(enum ibv_qp_state to)
{
	return (struct ibv_qp_attr){
		.qp_state = to, .port_num = 1, .qkey = 0x111,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_1024, .dest_qp_num = 0x1234, .rq_psn = 77,
		.sq_psn = 88, .max_dest_rd_atomic = 4, .max_rd_atomic = 3,
		.min_rnr_timer = 12, .timeout = 14, .retry_cnt = 6, .rnr_retry = 7,
		.ah_attr = {
			.is_global = 1, .port_num = 1,
			.grh = { .dgid.raw = { [10] = 0xff, 0xff, 10, 0, 0, 2 },
				 .sgid_index = 1, .hop_limit = 64 },
		},
	};
}

static inline int fix_step(struct qp *qp, enum ibv_qp_state to)
{
	struct ibv_qp_attr a = fix_attr(to);
	bool ud = qp->type == IBV_QPT_UD, rc = qp->type == IBV_QPT_RC;
	int mask = IBV_QP_STATE;

	if (to == IBV_QPS_INIT)
		mask = ud ? TO_INIT_UD : TO_INIT_RC;
	else if (to == IBV_QPS_RTR)
		mask = ud ? IBV_QP_STATE : rc ? TO_RTR_RC : TO_RTR_UC;
	else if (to == IBV_QPS_RTS && qp->state == IBV_QPS_RTR)
		mask = rc ? TO_RTS_RC : TO_RTS_UD;
	return qp_modify(qp, &a, mask, 0);
}

/* Moves the QP step by step along RESET, INIT, RTR, RTS, SQD. */
static inline void fix_bring(struct qp *qp, enum ibv_qp_state to)
{
	static const enum ibv_qp_state way[] = {
		IBV_QPS_INIT,
		IBV_QPS_RTR,
		IBV_QPS_RTS,
		IBV_QPS_SQD,
	};

	for (size_t i = 0; i < 4 && qp->state != to; i++)
		if (way[i] > qp->state)
			assert_int_equal(fix_step(qp, way[i]), 0);
	assert_int_equal(qp->state, to);
}

/* Returns the next asynchronous event, or -1. */
static inline int fix_event(struct fix *f, void *element)
{
	struct ibv_async_event ev;
	int rc = async_get(&f->ctx, &ev);

	if (rc == -EAGAIN)
		return -1;
	assert_int_equal(rc, 0);
	assert_ptr_equal(ev.element.qp, element);
	async_ack(&ev);
	return (int)ev.event_type;
}

/* Checks that the next completion has this wr_id and status. */
static inline struct ibv_wc fix_wc(struct cq *cq, uint64_t wr_id,
				   enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_int_equal(cq_poll(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	return wc;
}

static inline int fix_send(struct qp *qp, uint64_t wr_id, unsigned flags)
{
	struct ibv_send_wr wr = { .wr_id = wr_id,
				  .opcode = IBV_WR_SEND,
				  .send_flags = flags },
			   *bad = NULL;

	return qp_post_send(qp, &wr, &bad);
}

static inline int fix_recv(struct qp *qp, uint64_t wr_id)
{
	struct ibv_recv_wr wr = { .wr_id = wr_id }, *bad = NULL;

	return qp_post_recv(qp, &wr, &bad);
}

/* Returns the request that was posted last. */
static inline struct swqe *fix_last(struct qp *qp)
{
	return sq_at(&qp->sq, qp->sq.head - 1);
}

/* Treats all posted requests as completed, and their completions as polled, since the
 * fake transport completes none. */
static inline void fix_forget(struct qp *qp)
{
	qp->sq.tail = qp->sq.head;
	qp->sq.returned = qp->sq.head;
}

#endif
