/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices are opened once, and found by their addresses. */
#include "rdmacm/dev.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
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
	struct cma_dev *dev;
	uint8_t ip[16];

	ip_of(text, ip);
	return cma_dev_of(ip, ifindex, kind, &dev, index) ?: dev->iwarp ? 2 : 1;
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
	assert_int_equal(find("127.0.0.1", 0, CMA_ANY, &index), -ENODEV);
	fix.devices = 3;
	assert_int_equal(find("127.0.0.1", 0, CMA_ANY, &index), 1);
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

/* The one GID of an iWARP device is no IP address, and all of 127/8 is loopback's. */
static void loopback(void **state)
{
	uint8_t ip[16];
	int index;

	(void)state;
	assert_int_equal(find("127.1.2.3", 0, CMA_IWARP, &index), 2);
	assert_int_equal(find("127.1.2.3", 0, CMA_ROCE, &index), -ENODEV);
	ip_of("127.9.9.9", ip);
	assert_true(cma_ip_is_loopback(ip));
	ip_of("192.0.2.1", ip);
	assert_false(cma_ip_is_loopback(ip));
}

static void an_address_that_is_not_loopback(void **state)
{
	uint8_t ip[16], want[16];

	(void)state;
	ip_of("192.0.2.1", want);
	assert_int_equal(cma_some_ip(false, ip), 0);
	assert_memory_equal(ip, want, 16);
	assert_int_equal(cma_some_ip(true, ip), 0);
	assert_int_equal(ip[0], 0x20);
	fix.iwarp_alone = true;
	assert_int_equal(cma_some_ip(false, ip), -ENODEV);
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
static void limits(void **state)
{
	struct cma_dev *dev;

	(void)state;
	assert_int_equal(cma_any_dev(&dev), 0);
	assert_int_equal(dev->max_resources, 16);
	assert_int_equal(dev->max_depth, 255);
	assert_int_equal(dev->mtu, IBV_MTU_1024);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(those_that_come_later, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(roce_before_iwarp, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(of_an_interface, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(loopback, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(an_address_that_is_not_loopback,
						fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(kinds, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(limits, fix_begin, fix_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
