/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/ip_addr.h"
#include "net/loop.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "net/link_testing.h"

struct pair {
	struct link *a, *b;
};

static struct pair join(const struct loop_conf *conf)
{
	struct pair p;

	assert_int_equal(loop_pair(&p.a, &p.b, conf), 0);
	return p;
}

static void part(struct pair p)
{
	p.a->ops->close(p.a);
	p.b->ops->close(p.b);
}

static void datagrams_arrive_in_order_after_the_latency(void **state)
{
	struct pair p = join(&(struct loop_conf){ .latency = 50 });

	(void)state;
	assert_int_equal(p.b->ops->deadline(p.b), UINT64_MAX);
	assert_int_equal(test_send(p.a, 1, 1000), 1);
	assert_int_equal(test_send(p.a, 2, 1010), 1);
	assert_int_equal(p.b->ops->deadline(p.b), 1050);
	assert_int_equal(p.a->ops->deadline(p.a), UINT64_MAX);
	assert_int_equal(test_recv(p.b, 1049), -1);
	assert_int_equal(test_recv(p.b, 1059), 1);
	assert_int_equal(test_recv(p.b, 1059), -1);
	assert_int_equal(test_recv(p.b, 1060), 2);
	assert_int_equal(test_recv(p.a, 9999), -1);
	part(p);
}

static void what_is_received_is_a_copy_with_its_addresses(void **state)
{
	struct pair p = join(&(struct loop_conf){ .latency = 0 });
	struct test_dgram t;
	struct dgram v[4];

	(void)state;
	test_dgram(&t, "hello, world", 12);
	t.d.ip_id = 0xabcd;
	assert_int_equal(p.a->ops->send(p.a, &t.d, 1, 5), 1);
	memset(t.bytes, 0, sizeof(t.bytes));
	assert_int_equal(p.b->ops->recv(p.b, v, 4, 5), 1);
	assert_int_equal(v[0].len, 12);
	assert_int_equal(v[0].iovcnt, 1);
	assert_memory_equal(v[0].iov[0].iov_base, "hello, world", 12);
	assert_memory_equal(ip_of(&v[0])->from.ip, ip_of(&t.d)->from.ip, 16);
	assert_int_equal(ip_of(&v[0])->to.port, 4791);
	assert_int_equal(ip_of(&v[0])->tclass, 2);
	assert_int_equal(v[0].ip_id, 0xabcd);
	assert_true(v[0].ip_id_exact);
	part(p);
}

static void a_full_queue_loses(void **state)
{
	struct pair p = join(&(struct loop_conf){ .depth = 3 });

	(void)state;
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(test_send(p.a, i, 0), 1);
	assert_int_equal(loop_stats(p.a)->sent, 5);
	assert_int_equal(loop_stats(p.a)->lost, 2);
	for (int i = 0; i < 3; i++)
		assert_int_equal(test_recv(p.b, 0), i);
	assert_int_equal(test_recv(p.b, 0), -1);
	assert_int_equal(test_send(p.a, 9, 0), 1);
	assert_int_equal(test_recv(p.b, 0), 9);
	part(p);
}

static void with_backpressure_a_run_is_taken_whole_or_not_at_all(void **state)
{
	struct pair p = join(
		&(struct loop_conf){ .depth = 3, .run_max = 8, .backpressure = true });
	struct test_dgram t[4];
	struct dgram v[4];

	(void)state;
	assert_int_equal(p.a->run_max, 8);
	for (uint32_t i = 0; i < 4; i++) { /* runs of two */
		v[i] = *test_dgram(&t[i], &i, sizeof(i));
		v[i].seg = i % 2;
	}
	assert_int_equal(p.a->ops->send(p.a, v, 4, 0), 2);
	assert_int_equal(p.a->ops->send(p.a, v + 2, 2, 0), 0);
	assert_int_equal(test_recv(p.b, 0), 0);
	assert_int_equal(p.a->ops->send(p.a, v + 2, 2, 0), 2);
	for (int i = 1; i < 4; i++)
		assert_int_equal(test_recv(p.b, 0), i);
	assert_int_equal(loop_stats(p.a)->lost, 0);
	part(p);
}

static void too_long_is_lost(void **state)
{
	struct pair p = join(&(struct loop_conf){ .mtu = 40 });
	struct test_dgram t;
	uint8_t bytes[41] = { 0 };

	(void)state;
	assert_int_equal(p.a->mtu, 40);
	assert_int_equal(p.a->ops->send(p.a, test_dgram(&t, bytes, 41), 1, 0), 1);
	assert_int_equal(test_recv(p.b, 0), -1);
	assert_int_equal(p.a->ops->send(p.a, test_dgram(&t, bytes, 40), 1, 0), 1);
	assert_int_not_equal(test_recv(p.b, 0), -1);
	part(p);
}

static void either_end_may_close_first(void **state)
{
	struct pair p = join(&(struct loop_conf){ .latency = 0 });

	(void)state;
	assert_int_equal(test_send(p.a, 1, 0), 1);
	assert_int_equal(test_send(p.b, 2, 0), 1);
	p.a->ops->close(p.a);
	assert_int_equal(test_recv(p.b, 0), 1);
	assert_int_equal(test_send(p.b, 3, 0), 1);
	assert_int_equal(loop_stats(p.b)->lost, 1);
	p.b->ops->close(p.b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(datagrams_arrive_in_order_after_the_latency),
		cmocka_unit_test(what_is_received_is_a_copy_with_its_addresses),
		cmocka_unit_test(a_full_queue_loses),
		cmocka_unit_test(with_backpressure_a_run_is_taken_whole_or_not_at_all),
		cmocka_unit_test(too_long_is_lost),
		cmocka_unit_test(either_end_may_close_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
