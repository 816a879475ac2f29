/* SPDX-License-Identifier: BSD-2-Clause */
/* Raw packet QPs on a tap interface: what goes out, what comes in, and by which rule. */
#include <dirent.h>

#include "raw/fix.h"

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

/* A bad request puts the QP into ERR, and the requests behind it are flushed. */
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
	put(&tagged); /* longer than the receive: dropped, and the receive stays */
	put(&f);
	take_in(2);
	expect(t.rcq, 2, IBV_WC_SUCCESS, LEN);
	put(&f); /* no receive is posted */
	take_in(1);
	nothing(t.rcq);
	flow_destroy(flow);
	assert_int_equal(packets_fd(packets_of(&t.core)), -1);
	assert_int_equal(qp_destroy(qp), 0);
}

/* A frame goes to the first matching rule by priority, then by age; sniffer rules and
 * rules that do not trap get a copy; default rules get frames that no other rule has
 * matched. */
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

/* 800 kb/s: one frame of 100 bytes per millisecond; a delay of up to 200 us is made up
 * for. */
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

/* on_first() wakes a sleeping thread at the first rule, and again at the first one after
 * all rules were gone. */
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

/* After a fork the child closes the descriptors of its packet QPs. */
static void a_child_closes_all(void **state)
{
	unsigned before;
	struct flow *flow;
	struct qp *qp;

	(void)state;
	need_tap();
	before = descriptors() - 1; /* minus the epoll descriptor */
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

	make_tap();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
