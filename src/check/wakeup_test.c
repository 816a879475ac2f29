/* SPDX-License-Identifier: BSD-2-Clause */
/* wakeup_test.c - CQs that are armed and not polled again. */
#include <pthread.h>

#include "check/fix.h"
#include "verbs/event.h"

static struct channel channel = { .ibv.fd = -1 };

static void arm_with(uint32_t entries)
{
	fix.cq.ex.channel = &channel.ibv;
	fix.cq.head = fix.cq.tail + entries;
	assert_int_equal(ibv_req_notify_cq((struct ibv_cq *)&fix.cq.ex, 0), 0);
}

static void test_armed_with_an_entry(void **state)
{
	(void)state;
	arm_with(0);
	FIX_FINDS_NOTHING(checks->waits(&channel.live));
	arm_with(1);
	FIX_FINDS("lost-wakeup", checks->waits(&channel.live));
}

static void test_polled_again(void **state)
{
	struct ibv_wc wc;

	(void)state;
	arm_with(1);
	ibv_poll_cq((struct ibv_cq *)&fix.cq.ex, 1, &wc);
	FIX_FINDS_NOTHING(checks->waits(&channel.live));
}

static void test_a_new_entry(void **state)
{
	(void)state;
	arm_with(1);
	fix.cq.head++;
	FIX_FINDS_NOTHING(checks->waits(&channel.live));
}

/* All CQs of the channel are looked at. */
static void test_many_queues(void **state)
{
	enum { MANY = 100 };
	static struct cq cq[MANY];

	(void)state;
	arm_with(1);
	for (unsigned i = 0; i < MANY; i++) {
		cq[i] = fix.cq;
		object_made(&cq[i].live, LIVE_CQ);
		assert_int_equal(ibv_req_notify_cq((struct ibv_cq *)&cq[i].ex, 0), 0);
	}
	FIX_FINDS("lost-wakeup", checks->waits(&channel.live));
	assert_non_null(strstr(fix.log, "the channel has 101 such CQs"));
	cq[MANY - 1].head++;
	FIX_FINDS_NOTHING(checks->waits(&channel.live));
	for (unsigned i = 0; i < MANY; i++)
		object_gone(&cq[i].live, LIVE_CQ);
}

static void *arm_cancelled(void *arg)
{
	bool *goes_on = arg;

	pthread_cancel(pthread_self());
	arm_with(1);
	*goes_on = true;
	return NULL;
}

/* ibv_req_notify_cq() is no cancellation point. */
static void test_no_thread_ends_in_arming(void **state)
{
	bool goes_on = false;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, arm_cancelled, &goes_on), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(goes_on);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_armed_with_an_entry),
		cmocka_unit_test(test_polled_again),
		cmocka_unit_test(test_a_new_entry),
		cmocka_unit_test(test_many_queues),
		cmocka_unit_test(test_no_thread_ends_in_arming),
	};

	fix_open("lost-wakeup");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
