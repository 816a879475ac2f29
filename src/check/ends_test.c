/* SPDX-License-Identifier: BSD-2-Clause */
/* ends_test.c - objects after their end. */
#include "check/fix.h"

static void test_events(void **state)
{
	(void)state;
	checks->got(&fix.cq.live);
	FIX_FINDS("event-unacked", checks->destroys(&fix.cq.live, LIVE_CQ));
	checks->acked(&fix.cq.live, 1);
	FIX_FINDS_NOTHING(checks->destroys(&fix.cq.live, LIVE_CQ));
}

/* The counters have 32 bits. */
static void test_many_events(void **state)
{
	struct check_cq *cq = object_cq((struct ibv_cq *)&fix.cq.ex);

	(void)state;
	cq->events_got = cq->events_acked = UINT32_MAX;
	checks->got(&fix.cq.live);
	FIX_FINDS("event-unacked", checks->destroys(&fix.cq.live, LIVE_CQ));
	checks->acked(&fix.cq.live, 1);
	FIX_FINDS_NOTHING(checks->destroys(&fix.cq.live, LIVE_CQ));
}

/* Nothing of it reaches the NIC. */
static void test_stale(void **state)
{
	struct ibv_wc wc;

	(void)state;
	FIX_FINDS_NOTHING(checks->missing(&fix.qp.live, LIVE_QP, true));
	object_gone(&fix.qp.live, LIVE_QP);
	FIX_FINDS("destroyed-twice", checks->missing(&fix.qp.live, LIVE_QP, true));
	FIX_FINDS("use-after-destroy", assert_int_equal(fix_send(1, 0), EINVAL));
	FIX_FINDS("use-after-destroy", assert_int_equal(fix_recv(1), EINVAL));
	object_gone(&fix.cq.live, LIVE_CQ);
	FIX_FINDS("use-after-destroy",
		  assert_true(ibv_poll_cq((struct ibv_cq *)&fix.cq.ex, 1, &wc) < 0));
	assert_int_equal(fix.posted, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_many_events),
		cmocka_unit_test(test_stale),
	};

	fix_open("destroyed-twice,use-after-destroy,event-unacked");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
