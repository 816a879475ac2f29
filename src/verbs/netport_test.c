/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "verbs/test_ctx.h"

#define V4B   "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\2"
#define V6B   "\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\2"
#define LOOP6 "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1"
#define LOOP4 "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1"
#define EUI64 "\xfe\x80\0\0\0\0\0\0\0\x11\x22\xff\xfe\x33\x44\x55"

static bool at(struct device *dev, int index, const char *ip)
{
	struct gid_entry e;

	assert_int_equal(device_query_gid(dev, 1, index, &e), 0);
	return e.used && memcmp(e.gid.raw, ip, 16) == 0;
}

static bool is_free(struct device *dev, int index)
{
	struct gid_entry e;

	assert_int_equal(device_query_gid(dev, 1, index, &e), 0);
	return !e.used && at(dev, index, LOOP6) == false && e.gid.raw[0] == 0;
}

static void addresses_have_their_places(void **state)
{
	struct gid_entry e;
	struct test_ctx t;

	(void)state;
	test_open(&t);
	assert_true(at(t.dev, 0, TEST_LL));
	assert_true(at(t.dev, 1, TEST_V4));
	assert_true(at(t.dev, 2, TEST_V6));
	for (int i = 3; i < GID_TABLE; i++)
		assert_true(is_free(t.dev, i));
	assert_int_equal(device_query_gid(t.dev, 1, 0, &e), 0);
	assert_int_equal(e.ifindex, 7);
	assert_false(e.local_only);
	assert_int_equal(device_query_gid(t.dev, 1, -1, &e), -EINVAL);
	assert_int_equal(device_query_gid(t.dev, 1, GID_TABLE, &e), -EINVAL);
	assert_int_equal(device_query_gid(t.dev, 2, 0, &e), -EINVAL);
	test_close(&t);
}

static void an_address_keeps_its_index(void **state)
{
	struct netdev net = test_netdev();
	struct test_ctx t;

	(void)state;
	test_open(&t);
	test_add_addr(&net, V4B);
	test_add_addr(&net, V6B);
	assert_int_equal(device_update(t.dev, &net), PORT_GID);
	assert_true(at(t.dev, 3, V4B));
	assert_true(at(t.dev, 4, V6B));
	assert_int_equal(device_update(t.dev, &net), 0);
	/* The same addresses in another order, without 10.0.0.1 and 2001:db8::1. */
	net.naddrs = 0;
	test_add_addr(&net, V6B);
	test_add_addr(&net, V4B);
	test_add_addr(&net, TEST_LL);
	assert_int_equal(device_update(t.dev, &net), PORT_GID);
	assert_true(at(t.dev, 0, TEST_LL));
	assert_true(is_free(t.dev, 1));
	assert_true(is_free(t.dev, 2));
	assert_true(at(t.dev, 3, V4B));
	assert_true(at(t.dev, 4, V6B));
	/* One new address of each kind: IPv4 goes to index 1, IPv6 never does. */
	test_add_addr(&net, TEST_V6);
	test_add_addr(&net, TEST_V4);
	assert_int_equal(device_update(t.dev, &net), PORT_GID);
	assert_true(at(t.dev, 1, TEST_V4));
	assert_true(at(t.dev, 2, TEST_V6));
	test_close(&t);
}

static void without_ipv6_there_is_a_local_gid_0(void **state)
{
	struct netdev net = test_netdev();
	struct gid_entry e;
	struct test_ctx t;

	(void)state;
	test_open(&t);
	net.naddrs = 0;
	test_add_addr(&net, TEST_V4);
	assert_int_equal(device_update(t.dev, &net), PORT_GID);
	assert_true(at(t.dev, 0, EUI64));
	assert_true(at(t.dev, 1, TEST_V4));
	assert_int_equal(device_query_gid(t.dev, 1, 0, &e), 0);
	assert_true(e.local_only);
	assert_int_equal(device_update(t.dev, &net), 0);
	test_add_addr(&net, TEST_LL);
	assert_int_equal(device_update(t.dev, &net), PORT_GID);
	assert_true(at(t.dev, 0, TEST_LL));
	assert_true(is_free(t.dev, 2));
	/* The kernel adds the very address that urnic had derived from the MAC
	 * address. */
	net.naddrs = 1;
	device_update(t.dev, &net);
	assert_true(t.dev->port.gid[0].local_only);
	test_add_addr(&net, EUI64);
	device_update(t.dev, &net);
	assert_true(at(t.dev, 0, EUI64));
	assert_false(t.dev->port.gid[0].local_only);
	test_close(&t);
}

static void loopback_has_its_own_gid_0(void **state)
{
	struct netdev net = test_netdev();
	struct device *dev;

	(void)state;
	net.loopback = true;
	net.naddrs = 0;
	test_add_addr(&net, LOOP4);
	test_add_addr(&net, TEST_V6);
	test_add_addr(&net, LOOP6);
	assert_int_equal(device_create(&device_roce, &net, NULL, &dev), 0);
	assert_true(at(dev, 0, LOOP6));
	assert_true(at(dev, 1, LOOP4));
	assert_true(at(dev, 2, TEST_V6));
	net.naddrs = 1;
	device_update(dev, &net);
	assert_true(at(dev, 0, LOOP6));
	assert_true(dev->port.gid[0].local_only);
	free(dev);
}

static void a_full_table_takes_no_more(void **state)
{
	struct netdev net = test_netdev();
	struct test_ctx t;

	(void)state;
	test_open(&t);
	net.naddrs = 0;
	for (int i = 0; i < GID_TABLE; i++) {
		test_add_addr(&net, V6B);
		net.addr[i].ip[14] = (uint8_t)(i + 1);
	}
	device_update(t.dev, &net);
	assert_true(is_free(t.dev, 1));
	for (int i = 2; i < GID_TABLE; i++)
		assert_false(is_free(t.dev, i));
	net.naddrs = GID_TABLE + 50; /* more addresses than the table has room for */
	assert_int_equal(device_update(t.dev, &net), 0);
	test_close(&t);
}

static void a_device_knows_its_addresses(void **state)
{
	struct netdev net = test_netdev();
	struct test_ctx t;

	(void)state;
	test_open(&t);
	assert_true(device_has_ip(t.dev, (const uint8_t *)TEST_V4));
	assert_true(device_has_ip(t.dev, (const uint8_t *)TEST_LL));
	assert_false(device_has_ip(t.dev, (const uint8_t *)V4B));
	assert_false(device_has_ip(t.dev, (const uint8_t *)LOOP6));
	assert_true(
		device_has_ip(t.dev,
			      (const uint8_t *)"\xff\x0e\0\0\0\0\0\0\0\0\0\0\0\0\0\1"));
	assert_true(
		device_has_ip(t.dev,
			      (const uint8_t *)"\0\0\0\0\0\0\0\0\0\0\xff\xff\xe0\0\0\5"));
	net.naddrs = 1;
	device_update(t.dev, &net);
	assert_false(device_has_ip(t.dev, (const uint8_t *)TEST_V4));
	assert_false(device_has_ip(t.dev, (const uint8_t[16]){ 0 }));
	test_close(&t);
}

/* The interface is made anew and has another index, by which packets must go. */
static void an_interface_that_is_made_anew(void **state)
{
	struct netdev net = test_netdev();
	struct test_ctx t;

	(void)state;
	test_open(&t);
	net.ifindex = 42;
	device_update(t.dev, &net);
	assert_int_equal(device_port(t.dev).number, 42);
	assert_int_equal(t.dev->number, 42);
	test_close(&t);
}

/* As an adapter has them that speaks both: v1 in front of v2. */
static void each_is_there_twice(void **state)
{
	struct netdev net = test_netdev();
	struct gid_entry e;
	struct test_ctx t;

	(void)state;
	caps.v1_gids = true;
	test_open(&t);
	test_add_addr(&net, V4B);
	assert_int_equal(device_update(t.dev, &net), PORT_GID);
	for (int twice = 0; twice < 2; twice++) {
		assert_true(at(t.dev, 0, TEST_LL) && at(t.dev, 1, TEST_LL));
		assert_true(at(t.dev, 2, TEST_V4) && at(t.dev, 3, TEST_V4));
		assert_true(at(t.dev, 4, TEST_V6) && at(t.dev, 5, TEST_V6));
		assert_true(at(t.dev, 6, V4B) && at(t.dev, 7, V4B));
		assert_true(is_free(t.dev, 8) && is_free(t.dev, 9));
		for (int i = 0; i < 8; i++) {
			assert_int_equal(device_query_gid(t.dev, 1, i, &e), 0);
			assert_int_equal(gid_is_v1(&e), i % 2 == 0);
			assert_false(e.v1);
		}
		assert_int_equal(device_update(t.dev, &net), 0);
	}
	/* An index stays, and both entries of an address go with it. */
	net.naddrs = 0;
	test_add_addr(&net, V4B);
	assert_int_equal(device_update(t.dev, &net), PORT_GID);
	assert_true(is_free(t.dev, 4) && is_free(t.dev, 5));
	assert_true(at(t.dev, 6, V4B) && at(t.dev, 7, V4B));
	/* Where packets of v1 can be sent, they are. */
	net.v1 = true;
	assert_int_equal(device_update(t.dev, &net), 0);
	assert_int_equal(device_query_gid(t.dev, 1, 6, &e), 0);
	assert_true(e.v1 && !e.said_v1);
	assert_int_equal(device_query_gid(t.dev, 1, 7, &e), 0);
	assert_false(gid_is_v1(&e));
	test_close(&t);
	caps.v1_gids = false;
}

/* The last entries of the table are used, and none beyond. */
static void a_full_table_has_pairs(void **state)
{
	struct netdev net = test_netdev();
	struct gid_entry e;
	struct test_ctx t;

	(void)state;
	caps.v1_gids = true;
	for (uint8_t i = 0; i < GID_TABLE / 2 + 4; i++) {
		uint8_t ip[16] = { 0x20, 1, 0xd, 0xb8, [14] = 9, [15] = i };

		test_add_addr(&net, (const char *)ip);
	}
	test_open(&t);
	assert_int_equal(device_update(t.dev, &net), PORT_GID);
	for (int i = 0; i < GID_TABLE; i++) {
		assert_int_equal(device_query_gid(t.dev, 1, i, &e), 0);
		assert_true(e.used);
	}
	test_close(&t);
	caps.v1_gids = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_interface_that_is_made_anew),
		cmocka_unit_test(addresses_have_their_places),
		cmocka_unit_test(an_address_keeps_its_index),
		cmocka_unit_test(each_is_there_twice),
		cmocka_unit_test(a_full_table_has_pairs),
		cmocka_unit_test(without_ipv6_there_is_a_local_gid_0),
		cmocka_unit_test(loopback_has_its_own_gid_0),
		cmocka_unit_test(a_full_table_takes_no_more),
		cmocka_unit_test(a_device_knows_its_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
