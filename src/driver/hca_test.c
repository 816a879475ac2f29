/* SPDX-License-Identifier: BSD-2-Clause */
/* A fabric's adapter as a device: what its port becomes in the terms of verbs, whatever
 * the fabric says, and which device is made of it. */
#include "driver/hca.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>

#include "fabric/port/serving_testing.h"

static const char topology[] = "Switch 2 \"sw\"\n[1] \"H-a\"[1]\n\nCa 2 \"H-a\"\n";

/* --- the port -------------------------------------------------------------- */

static void a_port_that_is_active(void **state)
{
	const struct plug_port p = {
		.state = 4,
		.phys_state = 5,
		.lid = 7,
		.lmc = 2,
		.sm_lid = 1,
		.sm_sl = 3,
		.cap_mask = 0x1234,
		.prefix = 0xfe80000000000000,
		.pkeys = 2,
		.pkey = { 0xffff, 0x8001 },
		.mtu = IBV_MTU_2048,
		.mtu_cap = IBV_MTU_4096,
		.width = 2,
		.speed = 4,
		.ext_speed = 2,
		.vls = 4,
		.subnet_timeout = 18,
		.reregisters = 9,
		.guids = { 0x1122334455667788, 0, 5 },
		.address = 0x0a000001,
	};
	const uint8_t ip[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };
	struct port port;

	(void)state;
	hca_fill(&port, &p);
	assert_int_equal(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
	assert_true(port.active);
	assert_int_equal(port.state, 4);
	assert_int_equal(port.phys_state, 5);
	assert_int_equal(port.lid, 7);
	assert_int_equal(port.lmc, 2);
	assert_int_equal(port.sm_lid, 1);
	assert_int_equal(port.sm_sl, 3);
	assert_int_equal(port.cap_flags, 0x1234);
	assert_int_equal(port.pkeys, 2);
	assert_int_equal(port.pkey[1], 0x8001);
	assert_int_equal(port.active_mtu, IBV_MTU_2048);
	assert_int_equal(port.max_mtu, IBV_MTU_4096);
	assert_int_equal(port.width, 2);
	assert_int_equal(port.speed, 32); /* EDR */
	assert_int_equal(port.max_vl, 4);
	assert_int_equal(port.subnet_timeout, 18);
	assert_int_equal(port.reregisters, 9);
	assert_memory_equal(port.ip, ip, 16);
	assert_int_equal(be64toh(port.gid[0].gid.global.subnet_prefix), p.prefix);
	assert_int_equal(be64toh(port.gid[0].gid.global.interface_id), p.guids[0]);
	assert_true(port.gid[0].used);
	assert_false(port.gid[1].used);
	assert_true(port.gid[2].used);
}

static void a_port_that_waits(void **state)
{
	static const uint8_t none[16];
	const struct plug_port p = { .state = 2, .speed = 4 };
	struct port port;

	(void)state;
	hca_fill(&port, &p);
	assert_false(port.active);
	assert_int_equal(port.state, 2);
	assert_int_equal(port.speed, 4); /* QDR: there is no extended speed */
	assert_memory_equal(port.ip, none, 16);
}

/* The fabric is another process, perhaps another user's: no number of it is believed. */
static void a_fabric_that_lies(void **state)
{
	struct plug_port p;
	struct port port;

	(void)state;
	memset(&p, 0xff, sizeof(p));
	hca_fill(&port, &p);
	assert_false(port.active);
	assert_int_equal(port.pkeys, PKEY_TABLE);
	assert_in_range(port.gids, 0, GID_TABLE);
	assert_int_equal(port.active_mtu, IBV_MTU_256);
	assert_int_equal(port.max_mtu, IBV_MTU_256);
	assert_in_range(port.lmc, 0, 7);
	assert_in_range(port.sm_sl, 0, 15);
	assert_int_equal(port.max_vl, 5);
	p.mtu = p.mtu_cap = IBV_MTU_4096 + 1;
	hca_fill(&port, &p);
	assert_int_equal(port.max_mtu, IBV_MTU_256);
	p.mtu = p.mtu_cap = 0;
	hca_fill(&port, &p);
	assert_int_equal(port.active_mtu, IBV_MTU_256);
}

/* --- the device ------------------------------------------------------------ */

static int start(void **state)
{
	(void)state;
	begin_to_serve(topology, NULL);
	return 0;
}

static void a_device_is_made_once(void **state)
{
	const struct identity id = { .name = "overwritten" };
	struct device *dev = NULL, *first;
	unsigned changes = 99;
	struct plug_ca ca;

	(void)state;
	assert_int_equal(plug_ca(name, "H-a", &ca), 0);
	assert_int_equal(hca_look(name, "H-a", &id, true, &dev, &changes), 0);
	assert_int_equal(changes, 0);
	assert_ptr_equal(dev->kind, &device_ib);
	assert_int_equal(dev->ports, 2);
	assert_non_null(strstr(dev->ibv.name, ca.name));
	first = dev;
	assert_int_equal(hca_look(name, "H-a", &id, true, &dev, &changes), 0);
	assert_ptr_equal(dev, first);
	assert_int_equal(changes, 0);
	dev->port.lid = 77; /* the port has changed since */
	assert_int_equal(hca_look(name, "H-a", &id, true, &dev, &changes), 0);
	assert_true(changes & PORT_LID);
	free(dev);
}

static void an_adapter_that_is_not_there(void **state)
{
	const struct identity id = { .name = "" };
	struct device *dev = NULL;
	unsigned changes = 99;

	(void)state;
	assert_int_equal(hca_look(name, "H-b", &id, true, &dev, &changes), -EIO);
	assert_int_equal(changes, 0);
	assert_null(dev);
	assert_int_equal(hca_look("no-such-fabric", "H-a", &id, true, &dev, &changes),
			 -EIO);
	assert_null(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_that_is_active),
		cmocka_unit_test(a_port_that_waits),
		cmocka_unit_test(a_fabric_that_lies),
		cmocka_unit_test_setup_teardown(a_device_is_made_once, start, end),
		cmocka_unit_test_setup_teardown(an_adapter_that_is_not_there, start, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
