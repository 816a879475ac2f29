/* SPDX-License-Identifier: BSD-2-Clause */
/* The multicast GIDs of addresses. */
#include "rdmacm/mgid.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "sys/sockaddr.h"

static void is(enum rdma_port_space ps, uint16_t pkey, int family, const char *address,
	       const char *mgid)
{
	struct sockaddr_storage a;
	struct sockaddr_in *in = (void *)&a;
	uint8_t ip[16], got[16], want[16];

	assert_int_equal(inet_pton(AF_INET6, mgid, want), 1);
	if (family == AF_INET) {
		*in = (struct sockaddr_in){ .sin_family = AF_INET };
		assert_int_equal(inet_pton(AF_INET, address, &in->sin_addr), 1);
	} else {
		assert_int_equal(inet_pton(AF_INET6, address, ip), 1);
		if (family == AF_IB)
			sockaddr_set_gid(&a, ip, 0xffff, 0);
		else
			sockaddr_set(&a, ip, 0, 0);
	}
	cma_mgid(ps, pkey, (struct sockaddr *)&a, got);
	assert_memory_equal(got, want, 16);
}

/* RFC 4391, 4; the port space changes the signature. */
static void groups(void **state)
{
	(void)state;
	is(RDMA_PS_IPOIB, 0xffff, AF_INET, "239.129.2.3", "ff12:401b:ffff::f81:203");
	is(RDMA_PS_UDP, 0xffff, AF_INET, "239.1.2.3", "ff12:4001:ffff::f01:203");
	is(RDMA_PS_UDP, 0x0012, AF_INET, "224.1.2.3", "ff12:4001:8012::1:203");
	is(RDMA_PS_IPOIB, 0x8012, AF_INET6, "ff15:1:2:3:4:5:6:7",
	   "ff12:601b:8012:3:4:5:6:7");
	is(RDMA_PS_UDP, 0xffff, AF_INET6, "ff15::7", "ff12:6001:ffff::7");
}

static void gids(void **state)
{
	(void)state;
	is(RDMA_PS_UDP, 0xffff, AF_INET6, "ff12:a01b:fe80::7", "ff12:a01b:fe80::7");
	is(RDMA_PS_UDP, 0xffff, AF_IB, "ff12:401b:8001::7", "ff12:401b:8001::7");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups),
		cmocka_unit_test(gids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
