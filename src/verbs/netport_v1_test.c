/* SPDX-License-Identifier: BSD-2-Clause */
/* The GID table where packet sockets are used: each address has two types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "verbs/test_ctx.h"

static struct gid_entry gid_at(struct device *dev, int index)
{
	struct gid_entry e;

	assert_int_equal(device_query_gid(dev, 1, index, &e), 0);
	return e;
}

static struct netdev netdev(void)
{
	struct netdev net = test_netdev();

	net.v1 = true;
	return net;
}

static void each_address_has_two_types(void **state)
{
	const struct netdev net = netdev();
	struct test_ctx t;

	(void)state;
	test_open_on(&t, &net);
	for (int i = 0; i < 3; i++) {
		struct gid_entry v2 = gid_at(t.dev, i), v1 = gid_at(t.dev, GID_V1 + i);

		assert_true(v2.used && !v2.v1 && v1.used && v1.v1);
		assert_memory_equal(v1.gid.raw, v2.gid.raw, 16);
		assert_int_equal(v1.ifindex, 7);
	}
	for (int i = 3; i < GID_TABLE; i++)
		assert_true(gid_at(t.dev, i).used == (i >= GID_V1 && i < GID_V1 + 3));
	test_close(&t);
}

/* When an address goes, both of its entries go; other entries keep their index. */
static void they_come_and_go_together(void **state)
{
	struct netdev net = netdev();
	struct test_ctx t;

	(void)state;
	test_open_on(&t, &net);
	memmove(net.addr, net.addr + 1, (net.naddrs - 1) * sizeof(*net.addr));
	net.naddrs--;
	assert_true(device_update(t.dev, &net) & PORT_GID);
	for (int i = 0; i < 3; i++)
		if (!gid_at(t.dev, i).local_only)
			assert_int_equal(gid_at(t.dev, GID_V1 + i).used,
					 gid_at(t.dev, i).used);
	/* The remaining GID is made from the MAC address, so it is for this host only
	 * and has no entry of RoCE v1. */
	net.naddrs = 0;
	device_update(t.dev, &net);
	assert_true(gid_at(t.dev, 0).local_only);
	for (int i = 1; i < GID_TABLE; i++)
		assert_false(gid_at(t.dev, i).used);
	test_close(&t);
}

/* With more addresses than the table can hold twice, the rest have one type. */
static void the_others_go_behind(void **state)
{
	struct netdev net = netdev();
	struct test_ctx t;
	int used = 0;

	(void)state;
	for (net.naddrs = 0; net.naddrs < GID_V1 + 8; net.naddrs++) {
		memset(net.addr[net.naddrs].ip, 0, 16);
		net.addr[net.naddrs].ip[0] = net.naddrs ? 0xfd : 0xfe;
		net.addr[net.naddrs].ip[1] = net.naddrs ? 0 : 0x80;
		net.addr[net.naddrs].ip[15] = (uint8_t)(net.naddrs + 1);
	}
	test_open_on(&t, &net);
	device_update(t.dev, &net);
	for (int i = 0; i < GID_TABLE; i++) {
		struct gid_entry e = gid_at(t.dev, i);

		used += e.used;
		assert_true(!e.used || e.v1 == (i >= GID_V1 && i < 2 * GID_V1));
	}
	/* Index 1 is for IPv4, and the interface has no IPv4 address. */
	assert_int_equal(used, GID_V1 + 8 + GID_V1 - 1);
	test_close(&t);
}

static void loopback_has_none(void **state)
{
	struct netdev net = netdev();
	struct test_ctx t;

	(void)state;
	net.loopback = true;
	test_open_on(&t, &net);
	device_update(t.dev, &net);
	for (int i = 0; i < GID_TABLE; i++)
		assert_false(gid_at(t.dev, i).v1);
	test_close(&t);
}

/* A program that asks for one GID gets no RoCE v1 and no GID beyond 0 and 1. */
static void one_gid_leaves_the_others_out(void **state)
{
	struct netdev net = netdev();
	struct test_ctx t;

	(void)state;
	net.one_gid = true;
	test_open_on(&t, &net);
	for (int i = 0; i < GID_TABLE; i++) {
		assert_int_equal(gid_at(t.dev, i).used, i < 2);
		assert_false(gid_at(t.dev, i).v1);
	}
	test_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_address_has_two_types),
		cmocka_unit_test(they_come_and_go_together),
		cmocka_unit_test(the_others_go_behind),
		cmocka_unit_test(loopback_has_none),
		cmocka_unit_test(one_gid_leaves_the_others_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
