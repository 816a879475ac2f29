/* SPDX-License-Identifier: BSD-2-Clause */
/* The route to a peer, and the multicast GIDs of addresses. */
#include "rdmacm/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "rdmacm/bind.h"
#include "rdmacm/cma_event.h"
#include "rdmacm/connect.h"
#include "rdmacm/fix.h"
#include "sys/sockaddr.h"

/* --- multicast GIDs ------------------------------------------------------ */

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

/* --- routes -------------------------------------------------------------- */

static int resolve(struct cma_id *id, const char *ip, uint16_t port)
{
	struct sockaddr_in a = fix_addr(ip, port);

	return cma_resolve_addr(id, NULL, (struct sockaddr *)&a);
}

/* Loopback traffic uses a real device's address, but the addresses that the program sees
 * stay. */
static void to_this_host(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = fix_resolved(ch, RDMA_PS_TCP, "127.0.0.1", 7174);
	struct sockaddr_in a = fix_addr("192.0.2.1", 0);
	uint8_t ip[16];

	(void)state;
	sockaddr_ip((struct sockaddr *)&a, ip);
	assert_memory_equal(id->to.route.src, ip, 16);
	assert_memory_equal(id->to.route.dst, ip, 16);
	assert_int_equal(id->to.dst_ip[12], 127);
	assert_int_equal(id->to.dst_port, 7174);
	assert_true(id->to.src_port >= 32768);
	assert_int_equal(sockaddr_port(&id->id.route.addr.src_addr), id->to.src_port);
	assert_int_equal(id->id.route.num_paths, 1);
	assert_int_equal(id->id.route.path_rec->mtu, IBV_MTU_1024);
	assert_int_equal(id->state, CMA_ROUTE);
	/* The route is resolved already. */
	assert_int_equal(cma_resolve_route(id, 2000), -EINVAL);
	assert_int_equal(resolve(id, "127.0.0.1", 1), -EINVAL);
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

static void the_port_that_was_bound(void **state)
{
	struct sockaddr_in any = fix_addr("0.0.0.0", 4567);
	struct cma_id *id = fix_id(NULL, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(cma_bind(id, (struct sockaddr *)&any), 0);
	assert_int_equal(resolve(id, "127.0.0.1", 7174), 0);
	assert_int_equal(id->to.src_port, 4567);
	assert_int_equal(cma_destroy(id), 0);
}

static int resolve_from(struct cma_id *id, uint16_t src_port)
{
	struct sockaddr_in from = fix_addr("127.0.0.1", src_port),
			   to = fix_addr("127.0.0.1", 7174);

	return cma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to);
}

/* A source port that the program names is reserved. If another has it, the id is as
 * before; with REUSEADDR it does not matter. */
static void the_port_that_was_asked_for(void **state)
{
	struct cma_id *id = fix_id(NULL, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(resolve_from(id, 0), 0);
	assert_string_equal(fix_said(), "");
	assert_int_equal(cma_destroy(id), 0);
	id = fix_id(NULL, RDMA_PS_TCP);
	fix.binds_fail = 1;
	assert_int_equal(resolve_from(id, 4567), -EADDRINUSE);
	assert_string_equal(fix_said(), "bind");
	assert_int_equal(id->state, CMA_NEW);
	assert_null(id->id.verbs);
	assert_int_equal(resolve_from(id, 4567), 0);
	assert_int_equal(fix.service.port, 4567);
	assert_int_equal(id->to.src_port, 4567);
	assert_int_equal(resolve_from(id, 4567), 0); /* again: it has the port */
	assert_string_equal(fix_said(), "bind");
	assert_int_equal(cma_destroy(id), 0);
	assert_string_equal(fix_said(), "unbind");
	id = fix_id(NULL, RDMA_PS_TCP);
	id->reuse = true;
	fix.binds_fail = 1;
	assert_int_equal(resolve_from(id, 4567), 0);
	assert_string_equal(fix_said(), "bind");
	assert_int_equal(cma_destroy(id), 0);
}

static void datagrams(void **state)
{
	struct cma_id *id = fix_resolved(NULL, RDMA_PS_UDP, "127.0.0.1", 7174);

	(void)state;
	assert_true(id->to.datagram);
	assert_int_equal(cma_destroy(id), 0);
}

/* TCP finds its route by itself: there is no path record. */
static void iwarp(void **state)
{
	struct cma_id *id;

	(void)state;
	fix.iwarp_alone = true;
	id = fix_id(NULL, RDMA_PS_TCP);
	assert_int_equal(cma_bind_dev(id, id->to.dst_ip, 0, CMA_IWARP), -ENODEV);
	id->state = CMA_ADDR;
	id->dev = &(struct cma_dev){ .iwarp = true };
	assert_int_equal(cma_complete(id, cma_resolve_route(id, 2000),
				      RDMA_CM_EVENT_ROUTE_RESOLVED),
			 0);
	assert_null(id->id.route.path_rec);
	assert_int_equal(cma_destroy(id), 0);
}

/* An error about devices is an event; an error of the kernel's routes is not. */
static void no_route(void **state)
{
	struct sockaddr none = { .sa_family = AF_UNIX };
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *id = fix_id(ch, RDMA_PS_UDP);

	(void)state;
	assert_int_equal(cma_resolve_addr(id, NULL, NULL), -EINVAL);
	assert_int_equal(cma_resolve_addr(id, NULL, &none), -EAFNOSUPPORT);
	assert_int_equal(cma_resolve_route(id, 2000), -EINVAL);
	fix.bare = true;
	assert_int_equal(resolve(id, "127.0.0.1", 7174), 0);
	fix_ack(ch, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	assert_int_equal(id->state, CMA_NEW);
	assert_int_equal(cma_destroy(id), 0);
	cma_channel_free(ch);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups),
		cmocka_unit_test(gids),
		cmocka_unit_test_setup_teardown(to_this_host, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(the_port_that_was_bound, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(the_port_that_was_asked_for, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(datagrams, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(iwarp, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(no_route, fix_begin, fix_end),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
