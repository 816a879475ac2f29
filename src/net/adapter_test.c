/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of the memory shared with a fabric: buffers come and go, and a fabric that
 * writes impossible values there ends the link and harms nothing else. */
#include "net/adapter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "net/adapter_ring.h"
#include "net/link_testing.h"

static struct ring {
	struct adapter_shared *sh;
	struct link *link;
	unsigned kicks;
} r;

static void kick(void *arg)
{
	(void)arg;
	r.kicks++;
}

static int begin(void **state)
{
	(void)state;
	r = (struct ring){ .sh = aligned_alloc(64, sizeof(*r.sh)) };
	assert_non_null(r.sh);
	memset(r.sh, 0, sizeof(*r.sh));
	return adapter_link(&r.link, r.sh, kick, NULL);
}

static int end(void **state)
{
	(void)state;
	r.link->ops->close(r.link);
	free(r.sh);
	return 0;
}

/* The fabric returns buffer buf. */
static void give(uint16_t buf)
{
	uint32_t head = atomic_load(&r.sh->freed_head);

	r.sh->freed[head % ADAPTER_BUFS] = buf;
	atomic_store(&r.sh->freed_head, head + 1);
}

static void come(uint32_t n)
{
	uint32_t head = atomic_load(&r.sh->rx_head);

	r.sh->rx[head % ADAPTER_BUFS] = (struct adapter_desc){ .len = sizeof(n) };
	memcpy(r.sh->rx_buf[head % ADAPTER_BUFS], &n, sizeof(n));
	atomic_store(&r.sh->rx_head, head + 1);
}

static void what_is_sent_lies_in_a_buffer(void **state)
{
	struct adapter_desc d;

	(void)state;
	assert_int_equal(test_send(r.link, 7, 0), 1);
	assert_int_equal(atomic_load(&r.sh->tx_head), 1);
	d = r.sh->tx[0];
	assert_int_equal(d.len, 4);
	assert_memory_equal(r.sh->tx_buf[d.buf], &(uint32_t){ 7 }, 4);
	assert_int_equal(r.kicks, 0);
	atomic_store(&r.sh->fabric_sleeps, 1);
	assert_int_equal(test_send(r.link, 8, 0), 1);
	assert_int_equal(test_send(r.link, 9, 0), 1);
	assert_int_equal(r.kicks, 1);
}

static void what_the_cable_spoils_says_so(void **state)
{
	struct test_dgram t;

	(void)state;
	test_dgram(&t, "spoilt", 6);
	t.d.damaged = true;
	assert_int_equal(r.link->ops->send(r.link, &t.d, 1, 0), 1);
	assert_int_equal(test_send(r.link, 7, 0), 1);
	assert_int_equal(r.sh->tx[0].buf & ADAPTER_BAD, ADAPTER_BAD);
	assert_in_range(r.sh->tx[0].buf & ~ADAPTER_BAD, 0, ADAPTER_BUFS - 1);
	assert_int_equal(r.sh->tx[1].buf & ADAPTER_BAD, 0);
	give(r.sh->tx[0].buf & (ADAPTER_BAD - 1));
	for (uint32_t i = 0; i < ADAPTER_BUFS - 1; i++)
		assert_int_equal(test_send(r.link, i, 0), 1);
	assert_int_equal(test_send(r.link, 0, 0), 0);
}

static void full_until_buffers_come_back(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < ADAPTER_BUFS; i++)
		assert_int_equal(test_send(r.link, i, 0), 1);
	atomic_store(&r.sh->fabric_sleeps, 1); /* the sleeping fabric must not be woken */
	assert_int_equal(test_send(r.link, 0, 0), 0);
	assert_int_equal(r.kicks, 0);
	assert_int_equal(atomic_load(&r.sh->fabric_sleeps), 1);
	for (uint32_t round = 0; round < 5 * ADAPTER_BUFS; round++) {
		give(r.sh->tx[round % ADAPTER_BUFS].buf);
		assert_int_equal(test_send(r.link, round, 0), 1);
		assert_int_equal(test_send(r.link, round, 0), 0);
	}
}

static void what_comes_is_given_back(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		come(i);
	assert_true(adapter_link_has(r.link));
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(test_recv(r.link, 0), i);
		assert_int_equal(atomic_load(&r.sh->rx_tail), i);
	}
	assert_false(adapter_link_has(r.link));
	atomic_store(&r.sh->fabric_waits, 1);
	adapter_link_sleeps(r.link, true);
	assert_int_equal(atomic_load(&r.sh->rx_tail), 3);
	assert_int_equal(atomic_load(&r.sh->program_sleeps), 1);
	assert_int_equal(r.kicks, 1);
	adapter_link_sleeps(r.link, false);
	assert_int_equal(atomic_load(&r.sh->program_sleeps), 0);
	assert_int_equal(r.kicks, 1);
}

static void too_many_have_come(void **state)
{
	(void)state;
	atomic_store(&r.sh->rx_head, ADAPTER_BUFS + 1);
	assert_int_equal(test_recv(r.link, 0), -1);
	assert_false(adapter_link_has(r.link));
	assert_int_equal(test_send(r.link, 1, 0), 1); /* the datagram is lost */
	assert_int_equal(atomic_load(&r.sh->tx_head), 0);
}

static void too_long(void **state)
{
	struct dgram v;

	(void)state;
	r.sh->rx[0] = (struct adapter_desc){ .len = ADAPTER_BUF + 1 };
	atomic_store(&r.sh->rx_head, 1);
	assert_int_equal(r.link->ops->recv(r.link, &v, 1, 0), 1);
	assert_int_equal(v.len, 0);
}

static void cut(void)
{
	uint32_t was = atomic_load(&r.sh->tx_head);

	for (unsigned i = 0; i < 2 * ADAPTER_BUFS; i++)
		assert_int_equal(test_send(r.link, 1, 0), 1);
	assert_int_equal(atomic_load(&r.sh->tx_head), was);
}

static void fill(void)
{
	for (uint32_t i = 0; i < ADAPTER_BUFS; i++)
		assert_int_equal(test_send(r.link, i, 0), 1);
}

static void a_buffer_comes_back_twice(void **state)
{
	(void)state;
	fill();
	give(3);
	give(3);
	assert_int_equal(test_send(r.link, 0, 0), 1);
	cut();
}

static void no_such_buffer(void **state)
{
	(void)state;
	fill();
	give(ADAPTER_BUFS);
	assert_int_equal(test_send(r.link, 0, 0), 0);
	cut();
}

static void too_many_come_back(void **state)
{
	(void)state;
	fill();
	atomic_store(&r.sh->freed_head, ADAPTER_BUFS + 1);
	assert_int_equal(test_send(r.link, 0, 0), 0);
	cut();
}

#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(what_is_sent_lies_in_a_buffer),
		T(what_the_cable_spoils_says_so),
		T(full_until_buffers_come_back),
		T(what_comes_is_given_back),
		T(too_many_have_come),
		T(too_long),
		T(a_buffer_comes_back_twice),
		T(no_such_buffer),
		T(too_many_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
