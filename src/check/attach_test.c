/* SPDX-License-Identifier: BSD-2-Clause */
/* attach_test.c - what other rooms tell. */
#include "check/attach.h"

#include "check/fix.h"
#include "check/ops.h"
#include "check/queue.h"
#include "check/tell.h"

static void test_states(void **state)
{
	const struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR },
				 reset = { .qp_state = IBV_QPS_RESET },
				 rts = { .qp_state = IBV_QPS_RTS };

	(void)state;
	assert_non_null(checks);
	assert_int_equal(fix_send(1, 0), 0);
	fix_reap(1, IBV_WC_RDMA_WRITE, IBV_WC_LOC_PROT_ERR);
	assert_true(fix_qp()->failed && fix_qp()->sq.failed);
	checks->modified(&fix.qp.live, &rts, IBV_QP_STATE);
	assert_false(fix_qp()->failed || fix_qp()->sq.failed);
	assert_int_equal(fix_send(1, 0), 0);
	checks->modified(&fix.qp.live, &err, IBV_QP_STATE);
	assert_int_equal(fix_qp()->state, IBV_QPS_ERR);
	assert_true(fix_qp()->state_trace);
	checks->modified(&fix.qp.live, &reset, IBV_QP_PORT);
	assert_int_equal(fix_qp()->state, IBV_QPS_ERR);
	checks->modified(&fix.qp.live, &reset, IBV_QP_STATE);
	assert_int_equal(check_queue_used(&fix_qp()->sq), 0);
}

static void test_events(void **state)
{
	struct check_cq *cq = object_cq((struct ibv_cq *)&fix.cq.ex);

	(void)state;
	checks->got(&fix.cq.live);
	checks->got(&fix.cq.live);
	checks->acked(&fix.cq.live, 2);
	assert_int_equal(cq->events_got, 2);
	assert_int_equal(cq->events_acked, 2);
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(check_opcode(IBV_WR_RDMA_WRITE), "RDMA_WRITE");
	assert_string_equal(check_opcode(CHECK_RECV), "receive");
	assert_string_equal(check_opcode(77), "request");
}

static bool is_begun;

/* Would the calls of a handler that interrupts be left out? */
static void look(struct check_object *o)
{
	(void)o;
	is_begun = !ops_begin();
	if (!is_begun)
		ops_end();
}

static void test_what_is_told_is_a_call(void **state)
{
	static struct live pd;

	(void)state;
	tell.made[0] = tell.destroys[0] = tell.gone[0] = look;
	checks->made(&pd, LIVE_PD);
	assert_true(is_begun);
	is_begun = false;
	checks->destroys(&pd, LIVE_PD);
	assert_true(is_begun);
	is_begun = false;
	checks->gone(&pd, LIVE_PD);
	assert_true(is_begun);
	assert_true(ops_begin());
	ops_end();
	tell.made[0] = tell.destroys[0] = tell.gone[0] = NULL;
}

/* Another thread of the parent may hold any lock of this room. */
static void test_in_a_child(void **state)
{
	static struct live pd;

	(void)state;
	check_is_child = true;
	checks->made(&pd, LIVE_PD);
	check_is_child = false;
	assert_null(check_find(&pd, LIVE_PD));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_what_is_told_is_a_call),
		cmocka_unit_test(test_in_a_child),
	};

	fix_open("sq-overflow");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
