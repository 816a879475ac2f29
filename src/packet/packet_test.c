/* SPDX-License-Identifier: BSD-2-Clause */
/* Raw packet QPs on a tap interface, whose frames the test writes and reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"
#include "core/cq.h"
#include "core/event.h"
#include "core/mr.h"
#include "core/netport.h"
#include "core/pd.h"
#include "core/qp.h"
#include "packet/packet.h"
#include "sys/guard.h"
#include "sys/netns_testing.h"

enum { LEN = 100, WAIT_MS = 10000, CQE = 64, BUF = 4096, TYPE = 0x88 };

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

static void need_tap(void)
{
	if (t.tap < 0)
		skip();
}

static void on_first(void *arg)
{
	++*(unsigned *)arg;
}

static int begin(void **state)
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

static int end(void **state)
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

static int modify(struct qp *qp, enum ibv_qp_state to, int more, uint32_t rate)
{
	struct ibv_qp_attr attr = { .qp_state = to, .port_num = 1, .rate_limit = rate };

	return qp_modify(qp, &attr, IBV_QP_STATE | more, t.now);
}

static struct qp *make_qp(void)
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
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = &t.pd->ibv,
	};
	struct qp *qp;

	assert_int_equal(qp_create(&t.ctx, &a, &packet_transport, &qp), 0);
	assert_int_equal(modify(qp, IBV_QPS_INIT, 0, 0), -EINVAL); /* the port */
	assert_int_equal(modify(qp, IBV_QPS_INIT, IBV_QP_PORT, 0), 0);
	assert_int_equal(modify(qp, IBV_QPS_RTR, 0, 0), 0);
	assert_int_equal(modify(qp, IBV_QPS_RTS, 0, 0), 0);
	return qp;
}

static void post_recv(struct qp *qp, uint64_t id, uint32_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)t.mem + id * 256,
			       .length = len,
			       .lkey = t.mr->ibv.lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(qp_post_recv(qp, &wr, &bad), 0);
}

static int send_of(struct qp *qp, enum ibv_wr_opcode opcode, const void *at, uint32_t len,
		   uint32_t lkey)
{
	struct ibv_sge sge = { .addr = (uintptr_t)at, .length = len, .lkey = lkey };
	struct ibv_send_wr wr = { .wr_id = 7,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = opcode },
			   *bad;

	return qp_post_send(qp, &wr, &bad);
}

static NO_TSA bool output(struct qp *qp)
{
	bool more;

	turn_take(&t.core.turn);
	lock_take(&qp->lock);
	more = qp->transport->output(qp, NULL, t.now);
	lock_give(&qp->lock);
	turn_give(&t.core.turn);
	return more;
}

static NO_TSA uint64_t run(struct qp *qp)
{
	uint64_t at;

	turn_take(&t.core.turn);
	lock_take(&qp->lock);
	at = qp->transport->run(qp, t.now);
	lock_give(&qp->lock);
	turn_give(&t.core.turn);
	return at;
}

static void expect(struct cq *cq, uint64_t id, enum ibv_wc_status status, uint32_t len)
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

static void nothing(struct cq *cq)
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
static struct frame make(uint8_t to, uint8_t which)
{
	struct frame f = { .len = LEN };

	memset(f.bytes, which, LEN);
	memcpy(f.bytes, (uint8_t[14]){ 2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, 9, TYPE, TYPE },
	       14);
	return f;
}

static void put(const struct frame *f)
{
	assert_int_equal(write(t.tap, f->bytes, f->len), f->len);
}

/* Until n frames of ours have come in. */
static NO_TSA void take_in(int n)
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

static void next_frame(struct frame *f)
{
	do {
		f->len = netns_tap_read(t.tap, f->bytes, sizeof(f->bytes), WAIT_MS);
		assert_true(f->len > 0);
	} while (f->len < 14 || f->bytes[12] != TYPE);
}

/* --- rules ----------------------------------------------------------------- */

static struct flow *rule(struct qp *qp, enum ibv_flow_attr_type type, uint16_t priority,
			 uint8_t to, uint32_t flags)
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
	assert_ptr_equal(f->ibv.context, &t.ibv);
	return f;
}

/* --- tests ----------------------------------------------------------------- */

static void frames_go_out(void **state)
{
	struct qp *qp;
	struct frame f = make(2, 0x5a), got;

	(void)state;
	need_tap();
	qp = make_qp();
	memcpy(t.mem, f.bytes, f.len);
	assert_int_equal(send_of(qp, IBV_WR_SEND, t.mem, LEN, t.mr->ibv.lkey), 0);
	assert_int_equal(send_of(qp, IBV_WR_RDMA_WRITE, t.mem, LEN, t.mr->ibv.lkey),
			 -EINVAL);
	assert_false(output(qp));
	next_frame(&got);
	assert_int_equal(got.len, LEN);
	assert_memory_equal(got.bytes, f.bytes, LEN);
	expect(t.scq, 7, IBV_WC_SUCCESS, 0);
	assert_int_equal(qp_destroy(qp), 0);
}

/* The QP goes to ERR, and what is behind is flushed. */
static void bad_sends_fail(void **state)
{
	static const struct {
		uint32_t len;
		bool wrong_key;
		enum ibv_wc_status status;
	} row[] = { { LEN, true, IBV_WC_LOC_PROT_ERR },
		    { 1515, false, IBV_WC_LOC_LEN_ERR },
		    { 3, false, IBV_WC_LOC_QP_OP_ERR } };

	(void)state;
	need_tap();
	for (unsigned i = 0; i < 3; i++) {
		struct qp *qp = make_qp();
		uint32_t lkey = t.mr->ibv.lkey + row[i].wrong_key;
		struct frame f = make(2, 1), got;

		memcpy(t.mem, f.bytes, f.len);
		assert_int_equal(send_of(qp, IBV_WR_SEND, t.mem, LEN, t.mr->ibv.lkey), 0);
		assert_int_equal(send_of(qp, IBV_WR_SEND, t.mem, row[i].len, lkey), 0);
		assert_int_equal(send_of(qp, IBV_WR_SEND, t.mem, LEN, t.mr->ibv.lkey), 0);
		assert_false(output(qp));
		next_frame(&got);
		expect(t.scq, 7, IBV_WC_SUCCESS, 0);
		expect(t.scq, 7, row[i].status, 0);
		expect(t.scq, 7, IBV_WC_WR_FLUSH_ERR, 0);
		assert_int_equal(qp->state, IBV_QPS_ERR);
		assert_int_equal(qp_destroy(qp), 0);
	}
}

static void frames_fill_receives(void **state)
{
	struct frame f = make(2, 0x77), other = make(3, 1), tagged = make(2, 0x78);
	struct flow *flow;
	struct qp *qp;

	(void)state;
	need_tap();
	qp = make_qp();
	flow = rule(qp, IBV_FLOW_ATTR_NORMAL, 0, 2, 0);
	assert_int_equal(qp_destroy(qp), -EBUSY);
	for (unsigned i = 0; i < 3; i++)
		post_recv(qp, i, i == 1 ? LEN + 4 : LEN);
	put(&other);
	put(&f);
	memmove(tagged.bytes + 16, tagged.bytes + 12, LEN - 12);
	memcpy(tagged.bytes + 12, (uint8_t[4]){ 0x81, 0, 0xa0, 7 }, 4);
	tagged.len += 4;
	put(&tagged);
	take_in(3);
	expect(t.rcq, 0, IBV_WC_SUCCESS, LEN);
	expect(t.rcq, 1, IBV_WC_SUCCESS, LEN + 4);
	nothing(t.rcq);
	assert_memory_equal(t.mem, f.bytes, LEN);
	assert_memory_equal(t.mem + 256, tagged.bytes, LEN + 4);
	put(&tagged); /* longer than the receive: dropped, and that stays */
	put(&f);
	take_in(2);
	expect(t.rcq, 2, IBV_WC_SUCCESS, LEN);
	put(&f); /* there is no receive */
	take_in(1);
	nothing(t.rcq);
	flow_destroy(flow);
	assert_int_equal(packets_fd(packets_of(&t.core)), -1);
	assert_int_equal(qp_destroy(qp), 0);
}

/* The first rule by priority gets it, then by age; a sniffer and a rule that does not
 * trap get theirs as well; default rules get what is left. */
static void rules_have_an_order(void **state)
{
	enum { SNIFFS, FIRST, SECOND, LATE, DEFAULT, ALL, QPS };
	struct qp *qp[QPS];
	struct flow *flow[QPS];
	struct frame f;

	(void)state;
	need_tap();
	for (int i = 0; i < QPS; i++) {
		qp[i] = make_qp();
		post_recv(qp[i], (uint64_t)i, LEN);
		post_recv(qp[i], (uint64_t)i, LEN);
	}
	flow[DEFAULT] = rule(qp[DEFAULT], IBV_FLOW_ATTR_ALL_DEFAULT, 0, 0, 0);
	flow[LATE] = rule(qp[LATE], IBV_FLOW_ATTR_NORMAL, 2, 2, 0);
	flow[FIRST] = rule(qp[FIRST], IBV_FLOW_ATTR_NORMAL, 1, 2, 0);
	flow[SECOND] = rule(qp[SECOND], IBV_FLOW_ATTR_NORMAL, 1, 2, 0);
	flow[ALL] =
		rule(qp[ALL], IBV_FLOW_ATTR_NORMAL, 0, 0, IBV_FLOW_ATTR_FLAGS_DONT_TRAP);
	flow[SNIFFS] = rule(qp[SNIFFS], IBV_FLOW_ATTR_SNIFFER, 0, 0, 0);
	f = make(2, 1);
	put(&f);
	take_in(1);
	expect(t.rcq, SNIFFS, IBV_WC_SUCCESS, LEN);
	expect(t.rcq, ALL, IBV_WC_SUCCESS, LEN);
	expect(t.rcq, FIRST, IBV_WC_SUCCESS, LEN);
	nothing(t.rcq);
	flow_destroy(flow[FIRST]);
	f = make(2, 1);
	put(&f);
	take_in(1);
	expect(t.rcq, SNIFFS, IBV_WC_SUCCESS, LEN);
	expect(t.rcq, ALL, IBV_WC_SUCCESS, LEN);
	expect(t.rcq, SECOND, IBV_WC_SUCCESS, LEN);
	flow_destroy(flow[ALL]);
	flow_destroy(flow[SNIFFS]);
	f = make(9, 1);
	put(&f);
	take_in(1);
	expect(t.rcq, DEFAULT, IBV_WC_SUCCESS, LEN);
	nothing(t.rcq);
	flow_destroy(flow[SECOND]);
	flow_destroy(flow[LATE]);
	flow_destroy(flow[DEFAULT]);
	for (int i = 0; i < QPS; i++)
		assert_int_equal(qp_destroy(qp[i]), 0);
}

/* 800 kb/s: a frame of 100 bytes a millisecond, and what was missed for 200 us. */
static void a_rate_limit_paces(void **state)
{
	struct frame f = make(2, 1), got;
	struct qp *qp;

	(void)state;
	need_tap();
	qp = make_qp();
	assert_int_equal(modify(qp, IBV_QPS_RTS, IBV_QP_RATE_LIMIT, 800), 0);
	memcpy(t.mem, f.bytes, f.len);
	for (int i = 0; i < 3; i++)
		assert_int_equal(send_of(qp, IBV_WR_SEND, t.mem, LEN, t.mr->ibv.lkey), 0);
	for (int i = 0; i < 3; i++) {
		assert_false(output(qp));
		next_frame(&got);
		expect(t.scq, 7, IBV_WC_SUCCESS, 0);
		nothing(t.scq);
		assert_false(output(qp));
		nothing(t.scq);
		if (i == 2)
			break;
		assert_true(run(qp) > t.now && run(qp) <= t.now + 1000000);
		t.now = run(qp);
	}
	assert_int_equal(run(qp), UINT64_MAX);
	assert_int_equal(qp_destroy(qp), 0);
}

/* A thread that sleeps hears of the first rule, and again when all were gone. */
static void the_first_rule_is_told_of(void **state)
{
	struct flow *one, *two;
	struct qp *qp;

	(void)state;
	need_tap();
	qp = make_qp();
	assert_int_equal(packets_fd(packets_of(&t.core)), -1);
	one = rule(qp, IBV_FLOW_ATTR_NORMAL, 0, 2, 0);
	assert_int_equal(t.firsts, 1);
	assert_true(packets_fd(packets_of(&t.core)) >= 0);
	two = rule(qp, IBV_FLOW_ATTR_NORMAL, 0, 3, 0);
	assert_int_equal(t.firsts, 1);
	flow_destroy(one);
	assert_true(packets_fd(packets_of(&t.core)) >= 0);
	flow_destroy(two);
	assert_int_equal(packets_fd(packets_of(&t.core)), -1);
	flow_destroy(rule(qp, IBV_FLOW_ATTR_NORMAL, 0, 2, 0));
	assert_int_equal(t.firsts, 2);
	assert_int_equal(qp_destroy(qp), 0);
}

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* A forked child has no descriptor of them. */
static void a_child_closes_all(void **state)
{
	unsigned before;
	struct flow *flow;
	struct qp *qp;

	(void)state;
	need_tap();
	before = descriptors() - 1; /* epoll's */
	qp = make_qp();
	flow = rule(qp, IBV_FLOW_ATTR_NORMAL, 0, 2, 0);
	assert_int_equal(descriptors(), before + 3);
	packets_forked(packets_of(&t.core));
	assert_int_equal(descriptors(), before);
	flow_destroy(flow);
	assert_int_equal(qp_destroy(qp), 0);
}

static void of_other_qps(void **state)
{
	struct ibv_flow_attr attr = { .type = IBV_FLOW_ATTR_SNIFFER, .port = 1 };
	struct flow *flow;
	struct qp *qp;

	(void)state;
	need_tap();
	qp = make_qp();
	qp->type = IBV_QPT_RC;
	assert_int_equal(flow_create(qp, &attr, &flow), -EINVAL);
	qp->type = IBV_QPT_RAW_PACKET;
	attr.port = 2;
	assert_int_equal(flow_create(qp, &attr, &flow), -EINVAL);
	assert_int_equal(packets_fd(packets_of(&t.core)), -1);
	assert_int_equal(qp_destroy(qp), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(frames_go_out, begin, end),
		cmocka_unit_test_setup_teardown(bad_sends_fail, begin, end),
		cmocka_unit_test_setup_teardown(frames_fill_receives, begin, end),
		cmocka_unit_test_setup_teardown(rules_have_an_order, begin, end),
		cmocka_unit_test_setup_teardown(a_rate_limit_paces, begin, end),
		cmocka_unit_test_setup_teardown(the_first_rule_is_told_of, begin, end),
		cmocka_unit_test_setup_teardown(a_child_closes_all, begin, end),
		cmocka_unit_test_setup_teardown(of_other_qps, begin, end),
	};

	t.tap = netns_enter() && netns_stay() ? netns_tap("tap0") : -1;
	if (t.tap >= 0)
		t.ifindex = if_nametoindex("tap0");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
