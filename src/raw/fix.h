/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - for unit tests: raw packet QPs on a tap interface, whose frames the test writes
 * and reads. */
#ifndef RAW_FIX_H
#define RAW_FIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raw/packet.h"
#include "sys/guard.h"
#include "sys/netns_testing.h"
#include "verbs/core.h"
#include "verbs/cq.h"
#include "verbs/event.h"
#include "verbs/mr.h"
#include "verbs/netport.h"
#include "verbs/pd.h"
#include "verbs/qp.h"

enum { LEN = 100, CQE = 64, BUF = 4096, TYPE = 0x88 };

static struct t {
	int tap;
	uint32_t ifindex;
	struct core core;
	struct device *dev;
	struct ibv_context ibv;
	struct context ctx;
	struct pd *pd;
	struct cq *scq, *rcq;
	struct mr *mr;
	uint8_t mem[BUF];
	uint64_t now;
	unsigned firsts; /* calls of on_first() */
} t;

static inline void need_tap(void)
{
	if (t.tap < 0)
		skip();
}

static inline void on_first(void *arg)
{
	++*(unsigned *)arg;
}

static inline int begin(void **state)
{
	struct netdev net = { .name = "tap0",
			      .ifindex = t.ifindex,
			      .mtu = 1500,
			      .payload = 1416,
			      .running = true,
			      .naddrs = 1,
			      .addr = { { { [10] = 0xff, 0xff, 10, 0, 0, 1 } } } };

	(void)state;
	if (t.tap < 0)
		return 0;
	memset(&t.core, 0, sizeof(t.core));
	memset(&t.ctx, 0, sizeof(t.ctx));
	assert_int_equal(core_init(&t.core, 5), 0);
	assert_int_equal(device_create(&device_roce, &net, NULL, &t.dev), 0);
	t.ctx.core = &t.core;
	t.ctx.dev = t.dev;
	t.ctx.ibv = &t.ibv;
	t.ibv.device = &t.dev->ibv;
	list_init(&t.ctx.node);
	assert_int_equal(event_queue_init(&t.ctx.async), 0);
	assert_int_equal(pd_alloc(&t.core, &t.ibv, &t.pd), 0);
	assert_int_equal(cq_create(&t.ctx, CQE, NULL, NULL, &t.scq), 0);
	assert_int_equal(cq_create(&t.ctx, CQE, NULL, NULL, &t.rcq), 0);
	assert_int_equal(mr_reg(t.pd, t.mem, BUF, (uintptr_t)t.mem,
				IBV_ACCESS_LOCAL_WRITE, &t.mr),
			 0);
	t.firsts = 0;
	assert_int_equal(packets_open(&t.core, on_first, &t.firsts), 0);
	t.now = 1000000000;
	return 0;
}

static inline int end(void **state)
{
	(void)state;
	if (t.tap < 0)
		return 0;
	packets_close(&t.core);
	assert_int_equal(mr_dereg(t.mr), 0);
	assert_int_equal(cq_destroy(t.scq), 0);
	assert_int_equal(cq_destroy(t.rcq), 0);
	assert_int_equal(pd_free(t.pd), 0);
	event_queue_fini(&t.ctx.async);
	free(t.dev);
	core_fini(&t.core);
	return 0;
}

/* --- QPs ------------------------------------------------------------------- */

static inline int modify(struct qp *qp, enum ibv_qp_state to, int more, uint32_t rate)
{
	struct ibv_qp_attr attr = { .qp_state = to, .port_num = 1, .rate_limit = rate };

	return qp_modify(qp, &attr, IBV_QP_STATE | more, t.now);
}

/* In RTS. */
static inline struct qp *make_qp_of(struct context *ctx, uint32_t flags)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = (struct ibv_cq *)&t.scq->ex,
		.recv_cq = (struct ibv_cq *)&t.rcq->ex,
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 16,
			 .max_send_sge = 2,
			 .max_recv_sge = 2,
			 .max_inline_data = 64 },
		.qp_type = IBV_QPT_RAW_PACKET,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = &t.pd->ibv,
		.create_flags = flags,
	};
	struct qp *qp;

	assert_int_equal(qp_create(ctx, &a, &packet_transport, &qp), 0);
	assert_int_equal(modify(qp, IBV_QPS_INIT, 0, 0), -EINVAL); /* the port */
	assert_int_equal(modify(qp, IBV_QPS_INIT, IBV_QP_PORT, 0), 0);
	assert_int_equal(modify(qp, IBV_QPS_RTR, 0, 0), 0);
	assert_int_equal(modify(qp, IBV_QPS_RTS, 0, 0), 0);
	return qp;
}

/* Another context of the device; event_queue_fini(&other->async) ends it. */
static inline void open_other(struct context *other, struct ibv_context *ibv)
{
	*ibv = t.ibv;
	memset(other, 0, sizeof(*other));
	other->core = &t.core;
	other->dev = t.dev;
	other->ibv = ibv;
	list_init(&other->node);
	assert_int_equal(event_queue_init(&other->async), 0);
}

static inline struct qp *make_qp(void)
{
	return make_qp_of(&t.ctx, 0);
}

static inline void post_recv(struct qp *qp, uint64_t id, uint32_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)t.mem + id * 256,
			       .length = len,
			       .lkey = t.mr->ibv.lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(qp_post_recv(qp, &wr, &bad), 0);
}

static inline int send_of(struct qp *qp, enum ibv_wr_opcode opcode, const void *at,
			  uint32_t len, uint32_t lkey)
{
	struct ibv_sge sge = { .addr = (uintptr_t)at, .length = len, .lkey = lkey };
	struct ibv_send_wr wr = { .wr_id = 7,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = opcode },
			   *bad;

	return qp_post_send(qp, &wr, &bad);
}

static inline NO_TSA bool output(struct qp *qp)
{
	bool more;

	turn_take(&t.core.turn);
	lock_take(&qp->lock);
	more = qp->transport->output(qp, NULL, t.now);
	lock_give(&qp->lock);
	turn_give(&t.core.turn);
	return more;
}

static inline NO_TSA uint64_t run(struct qp *qp)
{
	uint64_t at;

	turn_take(&t.core.turn);
	lock_take(&qp->lock);
	at = qp->transport->run(qp, t.now);
	lock_give(&qp->lock);
	turn_give(&t.core.turn);
	return at;
}

static inline void expect(struct cq *cq, uint64_t id, enum ibv_wc_status status,
			  uint32_t len)
{
	struct ibv_wc wc;

	assert_int_equal(cq_poll(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, id);
	assert_int_equal(wc.status, status);
	if (cq == t.rcq && status == IBV_WC_SUCCESS) {
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.byte_len, len);
	}
}

static inline void nothing(struct cq *cq)
{
	struct ibv_wc wc;

	assert_int_equal(cq_poll(cq, 1, &wc), 0);
}

/* --- frames ---------------------------------------------------------------- */

struct frame {
	uint8_t bytes[1600];
	size_t len;
};

/* Of a type that is nobody's, to 02:..:to, filled with `which`. */
static inline struct frame make(uint8_t to, uint8_t which)
{
	struct frame f = { .len = LEN };

	memset(f.bytes, which, LEN);
	memcpy(f.bytes, (uint8_t[14]){ 2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, 9, TYPE, TYPE },
	       14);
	return f;
}

static inline void put(const struct frame *f)
{
	assert_int_equal(write(t.tap, f->bytes, f->len), f->len);
}

/* Until n frames of ours have come in. */
static inline NO_TSA void take_in(int n)
{
	struct pollfd p = { .fd = packets_fd(packets_of(&t.core)), .events = POLLIN };

	while (n > 0) {
		int got;

		assert_int_equal(poll(&p, 1, -1), 1);
		turn_take(&t.core.turn);
		got = packets_input(packets_of(&t.core), t.now);
		turn_give(&t.core.turn);
		assert_true(got >= 0);
		n -= got;
	}
}

static inline void next_frame(struct frame *f)
{
	do {
		f->len = netns_tap_read(t.tap, f->bytes, sizeof(f->bytes), -1);
		assert_true(f->len > 0);
	} while (f->len < 14 || f->bytes[12] != TYPE);
}

/* --- rules ----------------------------------------------------------------- */

static inline struct flow *rule(struct qp *qp, enum ibv_flow_attr_type type,
				uint16_t priority, uint8_t to, uint32_t flags)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} __attribute__((packed)) r = {
		.attr = { .type = type,
			  .size = sizeof(r),
			  .priority = priority,
			  .num_of_specs = type == IBV_FLOW_ATTR_NORMAL,
			  .port = 1,
			  .flags = flags },
		.eth = { .type = IBV_FLOW_SPEC_ETH,
			 .size = sizeof(r.eth),
			 .val = { .dst_mac = { 2, 0, 0, 0, 0, to },
				  .ether_type = TYPE << 8 | TYPE },
			 .mask = { .ether_type = 0xffff } },
	};
	struct ibv_flow_attr *attr = malloc(sizeof(r));
	struct flow *f;

	if (to)
		memset(r.eth.mask.dst_mac, 0xff, 6);
	memcpy(attr, &r, sizeof(r)); /* aligned */
	assert_int_equal(flow_create(qp, attr, &f), 0);
	free(attr);
	assert_ptr_equal(flow_of(&f->ibv), f);
	assert_ptr_equal(f->ibv.context, qp->ctx->ibv);
	return f;
}

/* Makes the interface; without one, need_tap() skips the tests. */
static inline void make_tap(void)
{
	t.tap = netns_enter() && netns_stay() ? netns_tap("tap0") : -1;
	if (t.tap >= 0)
		t.ifindex = if_nametoindex("tap0");
}

#endif
