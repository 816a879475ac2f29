/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices are opened once, and found by their addresses. */
#include "rdmacm/dev.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rdmacm/fix.h"
#include "sys/sockaddr.h"

static void ip_of(const char *text, uint8_t ip[16])
{
	struct sockaddr_in a = fix_addr(text, 0);

	sockaddr_ip((struct sockaddr *)&a, ip);
}

static int find(const char *text, uint32_t ifindex, enum cma_kind kind, int *index)
{
	struct cma_place at;
	uint8_t ip[16];
	int rc;

	ip_of(text, ip);
	rc = cma_dev_of(ip, ifindex, kind, &at);
	if (rc)
		return rc;
	*index = at.index;
	return at.dev->iwarp ? 2 : 1;
}

/* Must be the first test: no device is open yet. */
static void those_that_come_later(void **state)
{
	int n, index;
	struct ibv_context **list;

	(void)state;
	fix.devices = 0;
	assert_int_equal(cma_init(), -ENODEV);
	fix.devices = 1;
	fix.foreign = true;
	assert_int_equal(cma_init(), -ENOSYS);
	fix.foreign = false;
	assert_int_equal(cma_init(), 0);
	assert_int_equal(find("192.0.2.1", 0, CMA_ANY, &index), 1);
	assert_int_equal(find("127.0.0.1", 0, CMA_ANY, &index), 1);
	assert_int_equal(find("127.0.0.1", 0, CMA_IWARP, &index), -ENODEV);
	fix.devices = 3;
	assert_int_equal(find("127.0.0.1", 0, CMA_IWARP, &index), 2);
	list = cma_devices(&n);
	assert_int_equal(n, 3);
	assert_non_null(list[2]);
	assert_null(list[3]);
	free(list);
}

static void roce_before_iwarp(void **state)
{
	int index;

	(void)state;
	assert_int_equal(find("192.0.2.1", 0, CMA_ANY, &index), 1);
	assert_int_equal(index, 0);
	assert_int_equal(find("192.0.2.1", 0, CMA_IWARP, &index), 2);
	fix.iwarp_alone = true;
	assert_int_equal(find("192.0.2.1", 0, CMA_ANY, &index), 2);
	assert_int_equal(find("192.0.2.1", 0, CMA_ROCE, &index), -ENODEV);
}

static void of_an_interface(void **state)
{
	int index;

	(void)state;
	assert_int_equal(find("192.0.2.1", 2, CMA_ROCE, &index), 1);
	assert_int_equal(find("192.0.2.1", 1, CMA_ROCE, &index), -ENODEV);
}

/* Finds the device of loopback's address ip, and the address that stands for it. */
static const char *serves(const char *ip, enum cma_kind kind)
{
	static char text[160];
	char gid[INET6_ADDRSTRLEN];
	struct cma_place at;
	uint8_t bytes[16];

	assert_int_equal(inet_pton(AF_INET6, ip, bytes), 1);
	if (cma_loopback(bytes, kind, &at))
		return "none";
	inet_ntop(AF_INET6, at.ip, gid, sizeof(gid));
	snprintf(text, sizeof(text), "%s %s %u", at.dev->ctx->device->name, gid,
		 at.ifindex);
	return text;
}

/* The first device serves loopback, with a GID of the address's family if it can. */
static void loopback(void **state)
{
	(void)state;
	assert_string_equal(serves("::ffff:127.0.0.1", CMA_ANY),
			    "roce_eth0 ::ffff:192.0.2.1 0");
	assert_string_equal(serves("::ffff:127.9.9.9", CMA_ROCE),
			    "roce_eth0 ::ffff:192.0.2.1 0");
	assert_string_equal(serves("::1", CMA_ROCE), "roce_eth0 2001:db8::1 0");
	fix.v6_local = true;
	assert_string_equal(serves("::1", CMA_ROCE), "roce_eth0 ::ffff:192.0.2.1 0");
}

/* The one GID of an iWARP device is no IP address. */
static void loopback_by_tcp(void **state)
{
	(void)state;
	assert_string_equal(serves("::ffff:127.1.2.3", CMA_IWARP),
			    "iwarp_eth0 ::ffff:127.1.2.3 0");
	fix.bare = true;
	assert_string_equal(serves("::1", CMA_ANY), "iwarp_eth0 ::1 0");
	assert_string_equal(serves("::1", CMA_ROCE), "none");
	fix.bare = false;
	fix.devices = 2; /* it is known, but listed no more */
	assert_string_equal(serves("::1", CMA_IWARP), "none");
}

/* A port that is down serves loopback if no other does. */
static void loopback_where_ports_are_down(void **state)
{
	(void)state;
	fix.down = true;
	assert_string_equal(serves("::1", CMA_ROCE), "roce_lo ::1 0");
	assert_string_equal(serves("::ffff:127.1.2.3", CMA_ROCE),
			    "roce_lo ::ffff:127.0.0.1 0");
	fix.devices = 1;
	assert_string_equal(serves("::1", CMA_ROCE), "roce_eth0 2001:db8::1 0");
}

/* Its interface is gone. */
static void loopback_without_the_first(void **state)
{
	(void)state;
	fix.iwarp_alone = true;
	assert_string_equal(serves("::1", CMA_ANY), "roce_lo ::1 0");
}

static void kinds(void **state)
{
	uint8_t ip[16];

	(void)state;
	assert_true(cma_has_kind(CMA_IWARP) && cma_has_kind(CMA_ROCE));
	ip_of("127.0.0.1", ip);
	assert_false(cma_all_have(ip, CMA_ANY)); /* roce_eth0 does not have it */
}

/* Limits beyond a byte are reported as 255. */
/* Of two GIDs of one address that of RoCE v2 is taken. */
static void v2_before_v1(void **state)
{
	int index;

	(void)state;
	fix.v1_gids = true;
	assert_int_equal(find("192.0.2.1", 0, CMA_ROCE, &index), 1);
	assert_int_equal(index, 1);
	assert_int_equal(find("127.0.0.1", 0, CMA_ROCE, &index), 1);
	assert_int_equal(index % 2, 1);
}

static void limits(void **state)
{
	struct cma_dev *dev;

	(void)state;
	assert_int_equal(cma_any_dev(&dev), 0);
	assert_int_equal(dev->max_resources, 16);
	assert_int_equal(dev->max_depth, 255);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(those_that_come_later, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(roce_before_iwarp, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(v2_before_v1, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(of_an_interface, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(loopback, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(loopback_by_tcp, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(loopback_where_ports_are_down, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(loopback_without_the_first, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(kinds, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(limits, fix_begin, fix_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
