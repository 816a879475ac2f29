/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "verbs/mr.h"
#include "verbs/path.h"
#include "verbs/test_ctx.h"

static struct test_ctx t;

/* Attributes of a path from 10.0.0.1 to 10.0.0.9. */
static struct ibv_ah_attr to_v4(void)
{
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1, .sl = 3 };

	memcpy(a.grh.dgid.raw, TEST_V4, 16);
	a.grh.dgid.raw[15] = 9;
	a.grh.sgid_index = 1;
	a.grh.traffic_class = 0x1b;
	a.grh.flow_label = 0xfff12345;
	return a;
}

static void an_address_is_resolved(void **state)
{
	struct ibv_ah_attr a = to_v4();
	struct path path;
	const struct ip_addr *way = ip_addr(&path.addr);

	(void)state;
	test_open(&t);
	assert_int_equal(path_resolve(&t.ctx, &a, &path), 0);
	assert_ptr_equal(path.link, &test_link);
	assert_memory_equal(way->from.ip, TEST_V4, 16);
	assert_memory_equal(way->to.ip, a.grh.dgid.raw, 16);
	assert_int_equal(way->ifindex, 0);
	assert_int_equal(way->tclass, 0x1b);
	assert_int_equal(path.sl, 3);
	assert_int_equal(way->ttl, 64);
	a.grh.hop_limit = 7;
	assert_int_equal(path_resolve(&t.ctx, &a, &path), 0);
	assert_int_equal(way->ttl, 7);
	/* The path to a link-local address or a group names the interface. */
	a.grh.dgid = (union ibv_gid){ .raw = { 0xfe, 0x80, [15] = 9 } };
	a.grh.sgid_index = 0;
	assert_int_equal(path_resolve(&t.ctx, &a, &path), 0);
	assert_int_equal(way->ifindex, 7);
	test_close(&t);
}

static void bad_addresses_are_refused(void **state)
{
	struct ibv_ah_attr a = to_v4();
	struct path path = { .sl = 77 };

	(void)state;
	test_open(&t);
	a.is_global = 0;
	assert_int_equal(path_resolve(&t.ctx, &a, &path), -EINVAL);
	a = to_v4();
	a.port_num = 2;
	assert_int_equal(path_resolve(&t.ctx, &a, &path), -EINVAL);
	a.port_num = 0;
	assert_int_equal(path_resolve(&t.ctx, &a, &path), -EINVAL);
	a = to_v4();
	a.grh.sgid_index = 3; /* a free entry */
	assert_int_equal(path_resolve(&t.ctx, &a, &path), -EINVAL);
	a.grh.sgid_index = GID_TABLE;
	assert_int_equal(path_resolve(&t.ctx, &a, &path), -EINVAL);
	memcpy(a.grh.dgid.raw, TEST_V6, 16);
	a.grh.sgid_index = 3; /* a free entry is zeroes, which would be an IPv6 address */
	assert_int_equal(path_resolve(&t.ctx, &a, &path), -EINVAL);
	a.grh.sgid_index = 2;
	assert_int_equal(path_resolve(&t.ctx, &a, &path), 0);
	path.sl = 77;
	a = to_v4();
	memset(&a.grh.dgid, 0, sizeof(a.grh.dgid));
	a.grh.sgid_index = 2; /* an IPv6 entry */
	assert_int_equal(path_resolve(&t.ctx, &a, &path), -EINVAL);
	a = to_v4();
	a.grh.sgid_index = 2; /* from IPv6 to IPv4 */
	assert_int_equal(path_resolve(&t.ctx, &a, &path), -EINVAL);
	a = to_v4();
	a.sl = 16;
	assert_int_equal(path_resolve(&t.ctx, &a, &path), -EINVAL);
	assert_int_equal(path.sl, 77); /* unchanged by the failures */
	test_close(&t);
}

static void multicast_keeps_its_scope(void **state)
{
	struct ibv_ah_attr a = to_v4();
	struct path path;
	const struct ip_addr *way = ip_addr(&path.addr);

	(void)state;
	test_open(&t);
	a.grh.dgid.raw[12] = 0xe1;
	assert_int_equal(path_resolve(&t.ctx, &a, &path), 0);
	assert_int_equal(way->ttl, 1);
	a.grh.hop_limit = 5;
	assert_int_equal(path_resolve(&t.ctx, &a, &path), 0);
	assert_int_equal(way->ttl, 5);
	test_close(&t);
}

static void a_handle_counts_in_its_pd(void **state)
{
	struct ibv_ah_attr a = to_v4();
	struct ah *ah = NULL;
	struct pd *pd;

	(void)state;
	test_open(&t);
	assert_int_equal(pd_alloc(&t.core, &t.ibv, &pd), 0);
	a.is_global = 0;
	assert_int_equal(ah_create(pd, &t.ctx, &a, &ah), -EINVAL);
	assert_null(ah);
	a.is_global = 1;
	assert_int_equal(ah_create(pd, &t.ctx, &a, &ah), 0);
	assert_ptr_equal(ah_of(&ah->ibv), ah);
	assert_ptr_equal(ah->ibv.pd, &pd->ibv);
	assert_ptr_equal(ah->ibv.context, &t.ibv);
	assert_int_equal(ah->attr.grh.hop_limit, 0);
	assert_int_equal(ip_addr(&ah->path.addr)->ttl, 64);
	assert_int_equal(pd_free(pd), -EBUSY);
	assert_int_equal(ah_destroy(ah), 0);
	assert_int_equal(pd_free(pd), 0);
	assert_int_equal(t.core.counts.ahs, 0);
	test_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_is_resolved),
		cmocka_unit_test(bad_addresses_are_refused),
		cmocka_unit_test(multicast_keeps_its_scope),
		cmocka_unit_test(a_handle_counts_in_its_pd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
