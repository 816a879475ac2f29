/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "driver/netdev.h"
#include "sys/netns_testing.h"

static bool have_netns;

static void need_netns(void)
{
	if (!have_netns)
		skip();
}

static bool has(const struct netdev *d, const char *ip)
{
	uint8_t want[16] = { [10] = 0xff, [11] = 0xff };

	if (strchr(ip, ':'))
		inet_pton(AF_INET6, ip, want);
	else
		inet_pton(AF_INET, ip, want + 12);
	for (unsigned i = 0; i < d->naddrs; i++)
		if (!memcmp(d->addr[i].ip, want, 16))
			return true;
	return false;
}

static void test_loopback(void **state)
{
	struct netdev *v;
	int n;

	(void)state;
	need_netns();
	assert_int_equal(netdev_list(&v, &n), 0);
	assert_int_equal(n, 1);
	assert_string_equal(v[0].name, "lo");
	assert_true(v[0].loopback);
	assert_true(v[0].running);
	assert_int_equal(v[0].ifindex, 1);
	assert_int_equal(v[0].mtu, 65536);
	assert_int_equal(v[0].payload, 65536 - 84);
	assert_true(has(&v[0], "127.0.0.1"));
	assert_true(has(&v[0], "::1"));
	free(v);
}

static void test_changes_are_told(void **state)
{
	struct netdev_monitor *m;
	struct pollfd p = { .events = POLLIN };
	struct netdev *v;
	int n;

	(void)state;
	need_netns();
	assert_int_equal(netdev_monitor_open(&m), 0);
	p.fd = netdev_monitor_fd(m);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_false(netdev_monitor_drain(m));
	assert_true(netns_lo_address("10.9.9.1", 1));
	assert_int_equal(poll(&p, 1, -1), 1);
	assert_true(netdev_monitor_drain(m));
	assert_false(netdev_monitor_drain(m));
	assert_int_equal(netdev_list(&v, &n), 0);
	assert_int_equal(n, 1);
	assert_true(has(&v[0], "10.9.9.1"));
	free(v);
	netdev_monitor_close(m);
}

static void test_an_interface_comes_and_goes(void **state)
{
	struct netdev_monitor *m;
	struct pollfd p = { .events = POLLIN };
	struct netdev *v;
	unsigned found = 0;
	int n, tap;

	(void)state;
	need_netns();
	assert_int_equal(netdev_monitor_open(&m), 0);
	p.fd = netdev_monitor_fd(m);
	tap = netns_tap("tap0");
	if (tap < 0) {
		netdev_monitor_close(m);
		skip();
	}
	/* Listed once it has an address that is not tentative. */
	while (!found) {
		poll(&p, 1, -1);
		netdev_monitor_drain(m);
		assert_int_equal(netdev_list(&v, &n), 0);
		if (n == 2) {
			assert_string_equal(v[0].name, "tap0");
			assert_string_equal(v[1].name, "lo");
			assert_int_equal(v[0].ifindex, if_nametoindex("tap0"));
			assert_int_equal(v[0].mtu, 1500);
			assert_false(v[0].loopback);
			assert_true(v[0].running);
			assert_int_not_equal(v[0].mac[5] | v[0].mac[4], 0);
			assert_int_equal(v[0].addr[0].ip[0], 0xfe);
			assert_int_equal(v[0].addr[0].ip[1], 0x80);
			/* The address is built from the MAC address. */
			assert_int_equal(v[0].addr[0].ip[15], v[0].mac[5]);
			found = v[0].naddrs;
		}
		free(v);
	}
	assert_int_equal(found, 1);
	close(tap);
	assert_int_equal(poll(&p, 1, -1), 1);
	assert_true(netdev_monitor_drain(m));
	assert_int_equal(netdev_list(&v, &n), 0);
	assert_int_equal(n, 1);
	free(v);
	netdev_monitor_close(m);
}

static void test_without_address_is_left_out(void **state)
{
	static const char off[] = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
	struct netdev *v = NULL;
	int n = 0, bare, tap;

	(void)state;
	need_netns();
	if (!netns_write(off, "1")) {
		fprintf(stderr, "SKIPPED: %s cannot be written\n", off);
		skip();
	}
	bare = netns_tap("bare0");
	netns_write(off, "0");
	if (bare < 0)
		skip();
	tap = netns_tap("tap1");
	while (n < 2) {
		free(v);
		sched_yield();
		assert_int_equal(netdev_list(&v, &n), 0);
	}
	assert_int_equal(n, 2);
	assert_string_equal(v[0].name, "tap1");
	assert_string_equal(v[1].name, "lo");
	free(v);
	close(bare);
	close(tap);
}

static void test_many_addresses(void **state)
{
	struct netdev *v;
	char ip[32];
	int n;

	(void)state;
	need_netns();
	for (unsigned i = 0; i < 150; i++) {
		snprintf(ip, sizeof(ip), "10.8.%u.1", i);
		assert_true(netns_lo_address(ip, 100 + i));
	}
	assert_int_equal(netdev_list(&v, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(v[0].naddrs, GID_TABLE);
	free(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loopback),
		cmocka_unit_test(test_changes_are_told),
		cmocka_unit_test(test_an_interface_comes_and_goes),
		cmocka_unit_test(test_without_address_is_left_out),
		cmocka_unit_test(test_many_addresses),
	};

	have_netns = netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
