/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults in front of a link that is full: what the link refuses is no fault, and what
 * waits for room keeps its order. In virtual time. */
#include "net/fault_fix.h"

/* A datagram that the inner link refuses is sent again by the caller, and counts once
 * for nth=. */
static void a_full_link_is_not_a_fault(void **state)
{
	struct loop_conf conf = { .depth = 2, .backpressure = true };
	struct pair p = join("tx:nth=4", &conf);

	(void)state;
	assert_int_equal(test_send(p.faulty, 1, 0), 1);
	assert_int_equal(test_send(p.faulty, 2, 0), 1);
	for (int i = 0; i < 5; i++)
		assert_int_equal(test_send(p.faulty, 3, 0), 0);
	assert_int_equal(test_recv(p.plain, 0), 1);
	assert_int_equal(test_send(p.faulty, 3, 0), 1);
	assert_int_equal(test_recv(p.plain, 0), 2);
	assert_int_equal(test_recv(p.plain, 0), 3);
	assert_int_equal(test_send(p.faulty, 4, 0), 1);
	assert_int_equal(test_recv(p.plain, 0), -1);
	assert_int_equal(test_send(p.faulty, 5, 0), 1);
	assert_int_equal(test_recv(p.plain, 0), 5);
	part(p);
}

/* A refusal by a full inner link does not change which later datagrams are dropped. */
static void a_full_link_does_not_disturb_the_seed(void **state)
{
	struct loop_conf tight = { .depth = 1, .backpressure = true };
	struct pair p = join("tx:drop=0.3", NULL), q = join("tx:drop=0.3", &tight);

	(void)state;
	for (uint32_t i = 0; i < 500; i++) {
		assert_int_equal(test_send(p.faulty, i, 0), 1);
		while (test_send(q.faulty, i, 0) == 0)
			assert_int_equal(test_recv(q.plain, 0), test_recv(p.plain, 0));
	}
	assert_int_equal(fault_stats(p.faulty, false)->dropped,
			 fault_stats(q.faulty, false)->dropped);
	part(p);
	part(q);
}

/* A delayed datagram that finds the inner link full waits for room; the deadline is no
 * busy loop. */
static void a_late_one_waits_for_a_full_link(void **state)
{
	struct loop_conf conf = { .depth = 1, .backpressure = true };
	struct pair p = join("tx:delay=10us:0.000001,tx:dup=1", &conf);
	uint64_t due;

	(void)state;
	assert_int_equal(test_send(p.faulty, 1, 0), 1); /* the duplicate has no room */
	due = p.faulty->ops->deadline(p.faulty);
	assert_true(due > 0 && due <= MS);
	assert_int_equal(test_recv(p.plain, 1), 1);
	assert_int_equal(test_recv(p.plain, 1), -1);
	assert_int_equal(p.faulty->ops->send(p.faulty, NULL, 0, due), 0);
	assert_int_equal(test_recv(p.plain, due), 1);
	part(p);
}

/* Delayed datagrams keep their order, also when the inner link is full, and the faulty
 * link takes no more of them than it can hold. */
static void stays_in_order(const char *spec, uint64_t step)
{
	enum { TOO_MANY = 5000 };
	const struct loop_conf narrow = { .depth = 3, .backpressure = true };
	struct link *faulty, *plain;
	uint32_t sent = 0, next = 0;
	uint64_t now = 0;
	char err[256];
	int64_t r;

	assert_int_equal(loop_pair(&faulty, &plain, &narrow), 0);
	assert_int_equal(fault_wrap_ordered(&faulty, faulty, spec, err, sizeof(err)), 0);
	while (sent < TOO_MANY && test_send(faulty, sent, now) == 1)
		sent++;
	assert_in_range(sent, 4000, 4096);
	for (unsigned i = 0; next < TOO_MANY; i++, now += step) {
		assert_true(i < 10 * TOO_MANY);
		if (sent < TOO_MANY && test_send(faulty, sent, now) == 1)
			sent++;
		assert_true(faulty->ops->send(faulty, NULL, 0, now) >= 0);
		while ((r = test_recv(plain, now)) >= 0)
			assert_int_equal(r, next++);
	}
	faulty->ops->close(faulty);
	plain->ops->close(plain);
}

/* The order is also kept if the delay is shorter than the time until a full inner link
 * is tried again. */
static void a_link_in_order_stays_so(void **state)
{
	(void)state;
	stays_in_order("tx:delay=1ms", 100000);
	stays_in_order("tx:delay=10us", 5000);
	stays_in_order("tx:delay=1us", 5000);
}

/* A damaged datagram that finds the inner link full is not overtaken by later ones. */
static void what_it_spoils_keeps_its_place(void **state)
{
	const struct loop_conf narrow = { .depth = 1, .backpressure = true };
	struct link *faulty, *plain;
	char err[256];

	(void)state;
	assert_int_equal(loop_pair(&faulty, &plain, &narrow), 0);
	assert_int_equal(fault_wrap_ordered(&faulty, faulty, "tx:corrupt=1", err,
					    sizeof(err)),
			 0);
	assert_int_equal(test_send(faulty, 1, 0), 1);
	assert_int_equal(test_send(faulty, 2, 0), 1); /* waits for room */
	assert_int_equal(test_send(faulty, 3, 0), 0);
	assert_true(test_recv(plain, 0) >= 0);
	assert_int_equal(test_send(faulty, 3, 0), 0);
	assert_int_equal(test_send(faulty, 3, MS), 1);
	faulty->ops->close(faulty);
	plain->ops->close(plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_link_is_not_a_fault),
		cmocka_unit_test(a_full_link_does_not_disturb_the_seed),
		cmocka_unit_test(a_late_one_waits_for_a_full_link),
		cmocka_unit_test(a_link_in_order_stays_so),
		cmocka_unit_test(what_it_spoils_keeps_its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
