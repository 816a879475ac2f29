/* SPDX-License-Identifier: BSD-2-Clause */
/* A NIC at a fabric's adapter: what the program asks the fabric, what the fabric's news
 * change, and the fabric's end. */
#include "driver/adapter.h"

#include <endian.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "sys/netns_testing.h" /* first: it has parameters called name */

#include "driver/ethernet.h"
#include "driver/nic.h"
#include "driver/nic_own.h"
#include "driver/registry.h"
#include "fabric/port/serving_testing.h"
#include "verbs/device.h"
#include "verbs/transport.h"

static const char topology[] = "Switch 4 \"sw\"\n[1] \"H-a\"[1]\n[2] \"H-b\"[1]\n\n"
			       "Ca 1 \"H-a\"\n\nCa 1 \"H-b\"\n";

static struct nic *nic;
static bool serves;

static int set_up(void **state)
{
	struct device **v;
	int n;

	(void)state;
	begin_to_serve(topology, NULL);
	serves = true;
	/* Read by the first call only; each fabric here has the same name. */
	setenv("URNIC_FABRIC", name, 1);
	setenv("URNIC_HCA", "H-a", 1);
	assert_int_equal(nic_devices(&v, &n), 0);
	free(v);
	assert_int_equal(nic_open(&nic), 0);
	return 0;
}

static void end_of_fabric(void)
{
	end(NULL);
	serves = false;
}

static int tear_down(void **state)
{
	(void)state;
	nic_close(nic);
	if (serves)
		end_of_fabric();
	return 0;
}

static struct plug_port port_of(const char *hca)
{
	struct plug_port p;

	assert_int_equal(plug_port(name, hca, 1, &p), 0);
	return p;
}

static void the_device_has_a_link(void **state)
{
	struct device *dev = registry_hca();

	(void)state;
	assert_non_null(dev);
	assert_ptr_equal(dev->kind, &device_ib);
	assert_string_equal(nic_transport(nic, dev)->name, "ib");
	assert_non_null(nic_link(nic, dev));
	assert_ptr_not_equal(nic_link(nic, dev), ethernet_link(nic->ethernet));
}

/* Groups are the subnet manager's, so there is nothing to join at the link. */
static void a_group_needs_nothing(void **state)
{
	const union ibv_gid group = { .raw = { 0xff, 0x12 } };

	(void)state;
	assert_int_equal(nic_join(nic, registry_hca(), &group, true), 0);
	assert_int_equal(nic_join(nic, registry_hca(), &group, false), 0);
}

static void the_fabric_knows_addresses(void **state)
{
	const struct plug_port other = port_of("H-b");
	const uint32_t address = htobe32(other.address);
	uint8_t ip[16] = { [10] = 0xff, 0xff }, gid[16];
	union ibv_gid found;

	(void)state;
	memcpy(ip + 12, &address, sizeof(address));
	assert_int_equal(nic_find(&nic->core, ip, gid), 0);
	memcpy(found.raw, gid, sizeof(gid));
	assert_int_equal(be64toh(found.global.interface_id), other.guid);
	ip[15] ^= 0x80;
	assert_int_equal(nic_find(&nic->core, ip, gid), -EHOSTUNREACH);
}

static void a_service_is_one_programs(void **state)
{
	int fd = nic_serve(&nic->core, 4711);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
}

static int state_of(struct device *dev)
{
	int is;

	lock_take(&dev->lock);
	is = dev->port.active ? IBV_PORT_ACTIVE : dev->port.state;
	lock_give(&dev->lock);
	return is;
}

/* The port goes down, and the program can ask nobody any more. */
static void the_fabric_ends(void **state)
{
	uint8_t ip[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 }, gid[16];
	struct device *dev = registry_hca();

	(void)state;
	assert_int_equal(state_of(dev), IBV_PORT_INIT);
	end_of_fabric();
	while (state_of(dev) != IBV_PORT_DOWN)
		sched_yield();
	assert_true(nic_find(&nic->core, ip, gid) < 0);
	assert_true(nic_serve(&nic->core, 1) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_device_has_a_link, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_group_needs_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_fabric_knows_addresses, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_service_is_one_programs, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(the_fabric_ends, set_up, tear_down),
	};

	if (!netns_enter()) {
		fprintf(stderr, "SKIPPED: no network namespace here\n");
		return 77;
	}
	netns_lo_up();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
