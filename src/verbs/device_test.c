/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "sys/ident.h"
#include "verbs/mr.h"
#include "verbs/qp.h"
#include "verbs/test_ctx.h"

static void an_mtu_fits_a_payload(void **state)
{
	(void)state;
	assert_int_equal(mtu_within(65536), IBV_MTU_4096);
	assert_int_equal(mtu_within(4096), IBV_MTU_4096);
	assert_int_equal(mtu_within(4095), IBV_MTU_2048);
	assert_int_equal(mtu_within(1024), IBV_MTU_1024);
	assert_int_equal(mtu_within(1023), IBV_MTU_512);
	assert_int_equal(mtu_within(0), IBV_MTU_256);
	assert_int_equal(mtu_bytes(IBV_MTU_1024), 1024);
}

static void a_device_has_names_and_a_guid(void **state)
{
	static const uint8_t guid[8] = { 0x00, 0x11, 0x22, 0xff, 0xfe, 0x33, 0x44, 0x55 };
	struct identity id = { .vendor_id = 0x2c9, .name = "mlx5_0", .guid = 5 };
	struct netdev net = test_netdev();
	struct test_ctx t;
	struct device *dev;

	(void)state;
	test_open(&t);
	assert_string_equal(t.dev->ibv.name, "roce_eth7");
	assert_memory_equal(t.dev->ibv.dev_name, "uverbs", 6);
	assert_string_equal(strrchr(t.dev->ibv.dev_path, '/') + 1, t.dev->ibv.dev_name);
	assert_string_equal(t.dev->ibv.ibdev_path, "/sys/class/infiniband/roce_eth7");
	assert_int_equal(t.dev->ibv.node_type, IBV_NODE_CA);
	assert_int_equal(t.dev->ibv.transport_type, IBV_TRANSPORT_IB);
	assert_memory_equal(&t.dev->guid, guid, 8);
	assert_ptr_equal(device_of(&t.dev->ibv), t.dev);
	for (size_t i = 0; i < sizeof(t.dev->beyond); i++)
		assert_int_equal(t.dev->beyond[i], 0);
	assert_int_equal(device_create(&device_roce, &net, &id, &dev), 0);
	assert_string_equal(dev->ibv.name, "mlx5_0");
	assert_string_not_equal(dev->ibv.dev_name, t.dev->ibv.dev_name);
	assert_int_equal(dev->guid, 5);
	free(dev);
	test_close(&t);
}

static void an_iwarp_device(void **state)
{
	struct netdev net = test_netdev();
	const struct ibv_ah_attr to = { .is_global = 1, .port_num = 1 };
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_UD };
	struct ibv_device_attr_ex a;
	struct ibv_port_attr port;
	struct gid_entry e;
	struct test_ctx t;
	struct device *dev;
	struct ah *ah;
	struct qp *qp;
	struct pd pd = { .core = &t.core };

	(void)state;
	test_open(&t);
	assert_int_equal(device_create(&device_iwarp, &net, NULL, &dev), 0);
	assert_string_equal(dev->ibv.name, "iwarp_eth7");
	assert_int_equal(dev->ibv.node_type, IBV_NODE_RNIC);
	assert_int_equal(dev->ibv.transport_type, IBV_TRANSPORT_IWARP);
	assert_int_equal(dev->guid, t.dev->guid);
	/* The MAC, as Linux's siw has it, and nothing else. */
	assert_int_equal(device_query_gid(dev, 1, 0, &e), 0);
	assert_true(e.used);
	assert_memory_equal(e.gid.raw, net.mac, 6);
	assert_memory_equal(e.gid.raw + 6, "\0\0\0\0\0\0\0\0\0", 10);
	assert_int_equal(device_query_gid(dev, 1, 1, &e), -EINVAL);
	assert_true(device_has_ip(dev, net.addr[0].ip));
	assert_false(device_has_ip(dev, e.gid.raw));
	assert_int_equal(device_query(dev, &a, sizeof(a)), 0);
	assert_int_equal(a.orig_attr.max_ah, 0);
	assert_int_equal(a.orig_attr.max_mcast_grp, 0);
	assert_int_equal(a.orig_attr.max_pkeys, 0);
	assert_int_equal(a.odp_caps.per_transport_caps.ud_odp_caps, 0);
	assert_int_equal(device_query_port(dev, 1, &port, sizeof(port)), 0);
	assert_int_equal(port.gid_tbl_len, 1);
	assert_int_equal(port.pkey_tbl_len, 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);

	t.ctx.dev = dev;
	assert_int_equal(ah_create(&pd, &t.ctx, &to, &ah), -EOPNOTSUPP);
	for (; init.qp_type != IBV_QPT_RC; init.qp_type--)
		assert_int_equal(qp_create(&t.ctx, &init, NULL, &qp), -EOPNOTSUPP);
	t.ctx.dev = t.dev;
	free(dev);
	test_close(&t);
}

static void attributes_are_what_is_enforced(void **state)
{
	struct ibv_device_attr_ex a;
	struct test_ctx t;

	(void)state;
	test_open(&t);
	memset(&a, 0xee, sizeof(a));
	assert_int_equal(device_query(t.dev, &a, sizeof(a)), 0);
	assert_int_equal(a.orig_attr.max_qp, caps.max_qp);
	assert_int_equal(a.orig_attr.max_sge, caps.max_sge);
	assert_int_equal(a.orig_attr.max_cqe, caps.max_cqe);
	assert_int_equal(a.orig_attr.phys_port_cnt, 1);
	assert_int_equal(a.phys_port_cnt_ex, 1);
	assert_int_equal(a.orig_attr.vendor_id, IDENT_VENDOR);
	assert_memory_equal(a.orig_attr.fw_ver, "urnic-", 6);
	assert_int_equal(a.orig_attr.atomic_cap, IBV_ATOMIC_HCA);
	assert_int_equal(a.orig_attr.node_guid, t.dev->guid);
	assert_int_equal(a.orig_attr.max_ee, 0);
	assert_int_equal(a.max_dm_size, caps.max_dm);
	assert_int_equal(a.comp_mask, 0);
	assert_int_equal(a.hca_core_clock, 1000000);
	/* What ibv_rc_pingpong -o and ibv_srq_pingpong -o ask for. */
	assert_true(a.odp_caps.general_caps & IBV_ODP_SUPPORT);
	assert_int_equal(a.odp_caps.per_transport_caps.rc_odp_caps &
				 (IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
				  IBV_ODP_SUPPORT_SRQ_RECV),
			 IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
				 IBV_ODP_SUPPORT_SRQ_RECV);
	test_close(&t);
}

static void a_query_fills_what_the_program_has_room_for(void **state)
{
	enum { OLD = sizeof(struct ibv_device_attr), NEW = 64 };
	struct {
		struct ibv_device_attr_ex a;
		uint8_t newer[NEW];
	} b;
	struct ibv_port_attr port;
	struct test_ctx t;

	(void)state;
	test_open(&t);
	memset(&b, 0xee, sizeof(b));
	assert_int_equal(device_query(t.dev, &b.a, OLD), 0);
	assert_int_equal(b.a.orig_attr.phys_port_cnt, 1);
	assert_int_equal(((uint8_t *)&b)[OLD], 0xee);
	assert_int_equal(device_query(t.dev, &b.a, sizeof(b)), 0);
	for (int i = 0; i < NEW; i++)
		assert_int_equal(b.newer[i], 0);
	memset(&port, 0xee, sizeof(port));
	assert_int_equal(device_query_port(t.dev, 1, &port,
					   offsetof(struct ibv_port_attr,
						    port_cap_flags2)),
			 0);
	assert_int_equal(port.port_cap_flags2, 0xeeee);
	assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	test_close(&t);
}

static void the_port_follows_the_interface(void **state)
{
	struct netdev net = test_netdev();
	struct ibv_port_attr a;
	struct test_ctx t;

	(void)state;
	test_open(&t);
	assert_int_equal(device_query_port(t.dev, 0, &a, sizeof(a)), -EINVAL);
	assert_int_equal(device_query_port(t.dev, 2, &a, sizeof(a)), -EINVAL);
	assert_int_equal(device_query_port(t.dev, 1, &a, sizeof(a)), 0);
	assert_int_equal(a.state, IBV_PORT_ACTIVE);
	assert_int_equal(a.phys_state, 5);
	assert_int_equal(a.active_mtu, IBV_MTU_1024);
	assert_int_equal(a.max_mtu, IBV_MTU_4096);
	assert_int_equal(a.gid_tbl_len, GID_TABLE);
	assert_int_equal(a.pkey_tbl_len, 1);
	assert_int_equal(a.max_msg_sz, 0x7fffffff);
	net.running = false;
	net.payload = 9000;
	assert_int_equal(device_update(t.dev, &net), PORT_DOWN);
	assert_int_equal(device_query_port(t.dev, 1, &a, sizeof(a)), 0);
	assert_int_equal(a.state, IBV_PORT_DOWN);
	assert_int_equal(a.phys_state, 3);
	assert_int_equal(a.active_mtu, IBV_MTU_4096);
	assert_int_equal(a.bad_pkey_cntr | a.qkey_viol_cntr, 0);
	t.dev->pkey_violations = 3;
	t.dev->qkey_violations = 5;
	assert_int_equal(device_query_port(t.dev, 1, &a, sizeof(a)), 0);
	assert_int_equal(a.bad_pkey_cntr, 3);
	assert_int_equal(a.qkey_viol_cntr, 5);
	net.running = true;
	assert_int_equal(device_update(t.dev, &net), PORT_UP);
	assert_int_equal(device_update(t.dev, NULL), PORT_DOWN | PORT_GID);
	assert_false(net_device_of(t.dev)->present);
	assert_int_equal(device_query_port(t.dev, 1, &a, sizeof(a)), 0);
	assert_int_equal(a.state, IBV_PORT_DOWN);
	assert_int_equal(device_update(t.dev, &net), PORT_UP | PORT_GID);
	assert_true(net_device_of(t.dev)->present);
	test_close(&t);
}

static void who_may_talk(void **state)
{
	(void)state;
	assert_true(pkey_match(0xffff, 0xffff));
	assert_true(pkey_match(0x7fff, 0xffff));
	assert_true(pkey_match(0x8001, 0x0001));
	assert_false(pkey_match(0x7fff, 0x7fff)); /* limited, both */
	assert_false(pkey_match(0x8001, 0x8002));
	assert_false(pkey_match(0x8000, 0x8000)); /* no partition */
	assert_false(pkey_match(0x0000, 0x8000));
}

static void the_table_of_pkeys(void **state)
{
	struct test_ctx t;
	uint16_t at;

	(void)state;
	test_open(&t);
	assert_int_equal(device_query_pkey(t.dev, 1, 0, &at), 0);
	assert_int_equal(at, PKEY_DEFAULT);
	assert_int_equal(device_query_pkey(t.dev, 1, 1, &at), -EINVAL);
	assert_int_equal(device_query_pkey(t.dev, 1, -1, &at), -EINVAL);
	assert_int_equal(device_query_pkey(t.dev, 2, 0, &at), -EINVAL);
	test_close(&t);
}

/* What is asked for holds over what the owner says meanwhile. */
static void a_port_says_what_is_asked_for(void **state)
{
	struct test_ctx t;
	struct port port;

	(void)state;
	test_open(&t);
	port = device_port(t.dev);
	port.active = true;
	device_fill(t.dev, &port);
	device_ask(DEVICE_DOWN);
	assert_int_equal(device_say(t.dev), PORT_DOWN);
	assert_false(device_port(t.dev).active);
	assert_int_equal(device_fill(t.dev, &port), 0);
	assert_false(device_port(t.dev).active);
	port.active = false;
	assert_int_equal(device_fill(t.dev, &port), 0);
	device_ask(DEVICE_UP);
	assert_int_equal(device_say(t.dev), PORT_UP);
	device_ask(DEVICE_OWN);
	assert_int_equal(device_say(t.dev), PORT_DOWN);
	port.active = true;
	assert_int_equal(device_fill(t.dev, &port), PORT_UP);
	test_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_mtu_fits_a_payload),
		cmocka_unit_test(who_may_talk),
		cmocka_unit_test(the_table_of_pkeys),
		cmocka_unit_test(a_device_has_names_and_a_guid),
		cmocka_unit_test(an_iwarp_device),
		cmocka_unit_test(attributes_are_what_is_enforced),
		cmocka_unit_test(a_query_fills_what_the_program_has_room_for),
		cmocka_unit_test(the_port_follows_the_interface),
		cmocka_unit_test(a_port_says_what_is_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
