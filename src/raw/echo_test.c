/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames that a QP sends come back to the rules of the process's other contexts, and to
 * no others. */
#include "raw/fix.h"

enum { AT_ONCE = 16 }; /* frames that wait to come back */

static struct ibv_context other_ibv;
static struct context other;
static struct qp *sends, *hears; /* hears: a QP of the other context */

static int set_up(void **state)
{
	begin(state);
	if (t.tap < 0)
		return 0;
	open_other(&other, &other_ibv);
	sends = make_qp();
	hears = make_qp_of(&other, 0);
	return 0;
}

static int tear_down(void **state)
{
	if (t.tap < 0)
		return end(state);
	if (hears)
		assert_int_equal(qp_destroy(hears), 0);
	assert_int_equal(qp_destroy(sends), 0);
	event_queue_fini(&other.async);
	return end(state);
}

static void send_one(struct qp *qp, uint8_t to)
{
	struct frame f = make(to, 0x5a), got;

	memcpy(t.mem, f.bytes, f.len);
	assert_int_equal(send_of(qp, IBV_WR_SEND, t.mem, LEN, t.mr->ibv.lkey), 0);
	assert_false(output(qp));
	expect(t.scq, 7, IBV_WC_SUCCESS, 0);
	next_frame(&got); /* it goes out, too */
}

static NO_TSA bool bring_back(void)
{
	bool any;

	turn_take(&t.core.turn);
	any = packets_echo(packets_of(&t.core), t.now);
	turn_give(&t.core.turn);
	return any;
}

static void another_context_gets_it(void **state)
{
	struct flow *flow;

	(void)state;
	need_tap();
	flow = rule(hears, IBV_FLOW_ATTR_NORMAL, 0, 2, 0);
	post_recv(hears, 1, LEN);
	assert_false(bring_back());
	send_one(sends, 2);
	nothing(t.rcq); /* no other QP's lock is taken while one sends */
	assert_true(packets_have_echo(packets_of(&t.core)));
	assert_true(bring_back());
	expect(t.rcq, 1, IBV_WC_SUCCESS, LEN);
	assert_memory_equal(t.mem + 256, t.mem, LEN);
	assert_false(bring_back());
	flow_destroy(flow);
}

/* Its own context's rule is for what comes in; so are sniffers and default rules. */
static void its_own_context_does_not(void **state)
{
	static const enum ibv_flow_attr_type type[] = { IBV_FLOW_ATTR_SNIFFER,
							IBV_FLOW_ATTR_ALL_DEFAULT };
	struct flow *own, *flow;

	(void)state;
	need_tap();
	post_recv(sends, 1, LEN);
	post_recv(hears, 2, LEN);
	own = rule(sends, IBV_FLOW_ATTR_NORMAL, 0, 2, 0);
	for (int i = 0; i < 2; i++) {
		flow = rule(hears, type[i], 0, 0, 0);
		send_one(sends, 2);
		assert_false(packets_have_echo(packets_of(&t.core)));
		flow_destroy(flow);
	}
	nothing(t.rcq);
	flow_destroy(own);
}

static void a_rule_that_does_not_match(void **state)
{
	struct flow *flow;

	(void)state;
	need_tap();
	flow = rule(hears, IBV_FLOW_ATTR_NORMAL, 0, 3, 0);
	post_recv(hears, 1, LEN);
	send_one(sends, 2);
	assert_true(bring_back());
	nothing(t.rcq);
	flow_destroy(flow);
}

/* The rule is gone when the frame comes back. */
static void the_rule_has_gone(void **state)
{
	struct flow *flow;

	(void)state;
	need_tap();
	flow = rule(hears, IBV_FLOW_ATTR_NORMAL, 0, 2, 0);
	send_one(sends, 2);
	flow_destroy(flow);
	assert_int_equal(qp_destroy(hears), 0);
	hears = NULL;
	assert_true(bring_back());
	nothing(t.rcq);
}

/* On loopback the kernel brings them back. */
static void the_kernel_does_it_on_loopback(void **state)
{
	struct flow *flow;

	(void)state;
	need_tap();
	flow = rule(hears, IBV_FLOW_ATTR_NORMAL, 0, 2, 0);
	net_device_of(t.dev)->net.loopback = true;
	send_one(sends, 2);
	assert_false(packets_have_echo(packets_of(&t.core)));
	flow_destroy(flow);
}

/* A QP sends no more than can come back. */
static void as_many_as_there_is_room_for(void **state)
{
	struct flow *flow;
	struct frame f = make(2, 1);

	(void)state;
	need_tap();
	flow = rule(hears, IBV_FLOW_ATTR_NORMAL, 0, 2, 0);
	for (unsigned i = 0; i < AT_ONCE; i++) {
		post_recv(hears, 0, LEN);
		send_one(sends, 2);
	}
	memcpy(t.mem + 256, f.bytes, LEN);
	assert_int_equal(send_of(sends, IBV_WR_SEND, t.mem + 256, LEN, t.mr->ibv.lkey),
			 0);
	assert_false(output(sends));
	nothing(t.scq);
	assert_int_equal(run(sends), t.now + 1);
	assert_true(bring_back());
	for (unsigned i = 0; i < AT_ONCE; i++)
		expect(t.rcq, 0, IBV_WC_SUCCESS, LEN);
	t.now++;
	assert_false(output(sends));
	expect(t.scq, 7, IBV_WC_SUCCESS, 0);
	assert_true(bring_back());
	nothing(t.rcq); /* there is no receive */
	flow_destroy(flow);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(another_context_gets_it, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(its_own_context_does_not, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_rule_that_does_not_match, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(the_rule_has_gone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_kernel_does_it_on_loopback, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(as_many_as_there_is_room_for, set_up,
						tear_down),
	};

	make_tap();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
