/* SPDX-License-Identifier: BSD-2-Clause */
/* RoCE devices in libibumad: a RoCE device and an iWARP device of one interface. */
#include <errno.h>
#include <infiniband/umad.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "abi/umad_own.h"
#include "driver/nic.h"
#include "verbs/test_ctx.h"

static struct device *list[2];
static int list_rc;

int nic_devices(struct device ***out, int *n)
{
	if (list_rc)
		return list_rc;
	*out = calloc(2, sizeof(**out));
	assert_non_null(*out);
	memcpy(*out, list, sizeof(list));
	*n = 2;
	return 0;
}

/* umad_ca.c's. */
int umad_release_ca(umad_ca_t *ca)
{
	free(ca->ports[1]);
	ca->ports[1] = NULL;
	return 0;
}

static int begin(void **state)
{
	const struct netdev net = test_netdev();

	(void)state;
	list_rc = device_create(&device_iwarp, &net, NULL, &list[0]) |
		  device_create(&device_roce, &net, NULL, &list[1]);
	return list_rc;
}

static int end(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		free(list[i]);
	return 0;
}

static void names_are_of_roce(void **state)
{
	char name[2][UMAD_CA_NAME_LEN];

	(void)state;
	assert_int_equal(umad_roce_names(name, 2), 1);
	assert_string_equal(name[0], "roce_eth7");
	assert_int_equal(umad_roce_names(name, 0), 0);
	list_rc = -EINVAL;
	assert_int_equal(umad_roce_names(name, 2), 0);
}

static void a_device_is_as_verbs_have_it(void **state)
{
	umad_ca_t ca;

	(void)state;
	assert_int_equal(umad_roce_ca("roce_eth7", &ca), 0);
	assert_string_equal(ca.ca_name, "roce_eth7");
	assert_string_equal(ca.fw_ver, list[1]->id.fw_ver);
	assert_string_equal(ca.hw_ver, "0x1");
	assert_int_equal(ca.numports, 1);
	assert_int_equal(ca.node_guid, list[1]->guid);
	assert_int_equal(ca.ports[1]->state, IBV_PORT_ACTIVE);
	free(ca.ports[1]->pkeys);
	umad_release_ca(&ca);
	assert_int_equal(umad_roce_ca("iwarp_eth7", &ca), -ENODEV);
	assert_int_equal(umad_roce_ca("roce_eth8", &ca), -ENODEV);
	assert_int_equal(umad_roce_ca(NULL, &ca), -ENODEV);
}

static void its_port_too(void **state)
{
	umad_port_t p;

	(void)state;
	assert_int_equal(umad_roce_port("roce_eth7", 0, &p), 0);
	assert_int_equal(p.portnum, 1);
	assert_string_equal(p.link_layer, "Ethernet");
	assert_int_equal(p.rate, 25);
	assert_int_equal(p.phys_state, 5);
	assert_int_equal(p.pkeys_size, 1);
	assert_int_equal(p.pkeys[0], 0xffff);
	assert_memory_equal(&p.gid_prefix, TEST_LL, 8);
	assert_memory_equal(&p.port_guid, &TEST_LL[8], 8);
	free(p.pkeys);
	assert_int_equal(umad_roce_port("roce_eth7", 2, &p), -ENODEV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(names_are_of_roce, begin, end),
		cmocka_unit_test_setup_teardown(a_device_is_as_verbs_have_it, begin, end),
		cmocka_unit_test_setup_teardown(its_port_too, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
