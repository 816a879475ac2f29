/* SPDX-License-Identifier: BSD-2-Clause */
/* The adapters and ports that are reported, over a fabric of one adapter. */
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
#include "fabric/port/plug.h"

static struct plug_ca the_ca;
static struct plug_port port[4];
static int ca_rc, port_rc; /* port_rc: for port 2 */

int plug_ca(const char *fabric, const char *hca, struct plug_ca *out)
{
	assert_string_equal(fabric, "lab");
	assert_string_equal(hca, "h1");
	*out = the_ca;
	return ca_rc;
}

int plug_port(const char *fabric, const char *hca, uint32_t num, struct plug_port *out)
{
	assert_string_equal(fabric, "lab");
	assert_string_equal(hca, "h1");
	assert_in_range(num, 1, 3);
	*out = port[num];
	return num == 2 ? port_rc : 0;
}

/* RoCE devices are asked for only where no adapter is (umad_roce_test.c). */
int umad_roce_names(char cas[][UMAD_CA_NAME_LEN], int max)
{
	(void)cas;
	(void)max;
	fail();
	return 0;
}

int umad_roce_ca(const char *name, umad_ca_t *ca)
{
	(void)name;
	(void)ca;
	fail();
	return -1;
}

int umad_roce_port(const char *name, int num, umad_port_t *to)
{
	(void)name;
	(void)num;
	(void)to;
	fail();
	return -1;
}

/* A CA of three ports: port 3 is active, port 2 is up. */
static int begin(void **state)
{
	(void)state;
	ca_rc = port_rc = 0;
	the_ca = (struct plug_ca){
		.ports = 3, .guid = 0x0102030405060708, .sys_guid = 9, .name = "urnic0"
	};
	memset(port, 0, sizeof(port));
	port[1] = (struct plug_port){ .state = 1, .phys_state = 2, .guid = 0x11 };
	port[2] = (struct plug_port){ .state = 2, .phys_state = 5, .guid = 0x12 };
	port[3] = (struct plug_port){ .state = 4,
				      .phys_state = 5,
				      .rate = 40,
				      .lid = 7,
				      .lmc = 2,
				      .sm_lid = 8,
				      .sm_sl = 3,
				      .cap_mask = 0x01020304,
				      .prefix = 0xfe80000000000000,
				      .guid = 0x13,
				      .pkeys = 2,
				      .pkey = { 0xffff, 0x1234 } };
	return 0;
}

/* --- the adapter and port that a program means --------------------------- */

static void resolves(void **state)
{
	struct umad_place at;
	static const struct {
		const char *name;
		int port, rc, found;
	} row[] = {
		{ NULL, 0, 0, 3 },	     { NULL, -1, 0, 3 },
		{ "urnic0", 1, 0, 1 },	     { "urnic0", 3, 0, 3 },
		{ NULL, 4, -ENODEV, 4 },     { "mlx5_0", 1, -ENODEV, 1 },
		{ "mlx5_0", 0, -ENODEV, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		int n = row[i].port;

		assert_int_equal(umad_resolve(&at, row[i].name, &n), row[i].rc);
		assert_int_equal(n, row[i].found);
	}
	assert_string_equal(at.fabric, "lab");
	assert_int_equal(umad_resolve(&at, "urnic0", NULL), 0);
	assert_int_equal(umad_resolve(&at, "mlx5_0", NULL), -ENODEV);
	ca_rc = -ENOENT;
	assert_int_equal(umad_resolve(&at, NULL, NULL), -ENOENT);
}

/* The port that works best; the first of equals. */
static void the_best_port(void **state)
{
	struct umad_place at;
	int n = 0;

	(void)state;
	port[3].state = 2;
	assert_int_equal(umad_resolve(&at, NULL, &n), 0);
	assert_int_equal(n, 2);
	n = 0;
	port[2].phys_state = port[3].phys_state = 2;
	assert_int_equal(umad_resolve(&at, NULL, &n), 0);
	assert_int_equal(n, 1);
	n = 0;
	for (int i = 1; i < 4; i++)
		port[i].phys_state = 3; /* disabled */
	assert_int_equal(umad_resolve(&at, NULL, &n), -ENODEV);
	n = 0;
	port_rc = -EIO;
	assert_int_equal(umad_resolve(&at, NULL, &n), -EIO);
}

/* --- attributes of adapters and ports ------------------------------------ */

static void ports(void **state)
{
	umad_port_t p;

	(void)state;
	assert_int_equal(umad_get_port("urnic0", 0, &p), 0);
	assert_int_equal(p.portnum, 3);
	assert_string_equal(p.ca_name, "urnic0");
	assert_string_equal(p.link_layer, "InfiniBand");
	assert_int_equal(p.base_lid, 7);
	assert_int_equal(p.lmc, 2);
	assert_int_equal(p.sm_lid, 8);
	assert_int_equal(p.sm_sl, 3);
	assert_int_equal(p.state, 4);
	assert_int_equal(p.phys_state, 5);
	assert_int_equal(p.rate, 40);
	assert_int_equal(p.capmask, 0x04030201);
	assert_int_equal(p.gid_prefix, 0x80fe);
	assert_int_equal(p.port_guid, 0x1300000000000000);
	assert_int_equal(p.pkeys_size, 2);
	assert_int_equal(p.pkeys[0], 0xffff);
	assert_int_equal(p.pkeys[1], 0x1234);
	assert_int_equal(umad_release_port(&p), 0);
	assert_null(p.pkeys);
	assert_int_equal(p.pkeys_size, 0);
	assert_int_equal(umad_release_port(NULL), -ENODEV);
	assert_int_equal(umad_get_port("mlx5_0", 1, &p), -ENODEV);
	port_rc = -EIO;
	assert_int_equal(umad_get_port(NULL, 2, &p), -EIO);
}

static void adapters(void **state)
{
	char names[2][UMAD_CA_NAME_LEN] = { "", "" };
	umad_ca_t ca;

	(void)state;
	assert_int_equal(umad_get_cas_names(names, 2), 1);
	assert_string_equal(names[0], "urnic0");
	assert_string_equal(names[1], "");
	assert_int_equal(umad_get_cas_names(names, 0), 0);
	assert_int_equal(umad_get_ca(NULL, &ca), 0);
	assert_string_equal(ca.ca_name, "urnic0");
	assert_string_equal(ca.ca_type, "urnic");
	assert_string_equal(ca.fw_ver, "1.0.0");
	assert_string_equal(ca.hw_ver, "0x1");
	assert_int_equal(ca.node_type, 1);
	assert_int_equal(ca.numports, 3);
	assert_int_equal(ca.node_guid, 0x0807060504030201);
	assert_int_equal(ca.system_guid, 0x0900000000000000);
	assert_null(ca.ports[0]);
	assert_int_equal(ca.ports[1]->portnum, 1);
	assert_int_equal(ca.ports[3]->portnum, 3);
	assert_int_equal(umad_release_ca(&ca), 0);
	assert_null(ca.ports[3]);
	assert_int_equal(umad_release_ca(NULL), -ENODEV);
	assert_int_equal(umad_get_ca("mlx5_0", &ca), -ENODEV);
	port_rc = -EIO;
	assert_int_equal(umad_get_ca(NULL, &ca), -EIO);
	the_ca.ports = 1;
	assert_int_equal(umad_get_ca(NULL, &ca), 0);
	assert_int_equal(ca.numports, 1);
	umad_release_ca(&ca);
	ca_rc = -EIO;
	assert_int_equal(umad_get_cas_names(names, 2), 0);
}

static void guids(void **state)
{
	__be64 guid[4];

	(void)state;
	assert_int_equal(umad_get_ca_portguids(NULL, guid, 4), 4);
	assert_int_equal(guid[0], 0);
	assert_int_equal(guid[1], 0x1100000000000000);
	assert_int_equal(guid[3], 0x1300000000000000);
	assert_int_equal(umad_get_ca_portguids(NULL, guid, 3), -ENOMEM);
	assert_int_equal(umad_get_ca_portguids(NULL, NULL, 0), 0);
	assert_int_equal(umad_get_ca_portguids("mlx5_0", guid, 4), -ENODEV);
	port_rc = -EIO;
	assert_int_equal(umad_get_ca_portguids(NULL, guid, 4), -1);
}

/* --- lists ---------------------------------------------------------------- */

static void a_list(void **state)
{
	struct umad_device_node *head;

	(void)state;
	head = umad_get_ca_device_list();
	assert_string_equal(head->ca_name, "urnic0");
	assert_null(head->next);
	umad_free_ca_device_list(head);
	umad_free_ca_device_list(NULL);
	ca_rc = -EIO;
	assert_null(umad_get_ca_device_list());
}

static void sorts(void **state)
{
	struct umad_device_node n[4] = { { &n[1], "mlx5_10" },
					 { &n[2], "mlx5_2" },
					 { &n[3], "a" },
					 { NULL, "mlx5_2" } },
				*head = n;

	(void)state;
	assert_int_equal(umad_sort_ca_device_list(NULL, 0), EINVAL);
	assert_int_equal(umad_sort_ca_device_list(&head, 2), 0);
	assert_ptr_equal(head, &n[1]);
	assert_ptr_equal(n[1].next, &n[0]);
	assert_ptr_equal(n[0].next, &n[2]);
	assert_ptr_equal(n[2].next, &n[3]);
	assert_int_equal(umad_sort_ca_device_list(&head, 0), 0);
	assert_ptr_equal(head, &n[2]);
	assert_ptr_equal(n[2].next, &n[1]); /* the first of equals */
	assert_ptr_equal(n[1].next, &n[3]);
	assert_ptr_equal(n[3].next, &n[0]);
	assert_null(n[0].next);
	head = NULL;
	assert_int_equal(umad_sort_ca_device_list(&head, 0), 0);
	assert_null(head);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(resolves, begin),
		cmocka_unit_test_setup(the_best_port, begin),
		cmocka_unit_test_setup(ports, begin),
		cmocka_unit_test_setup(adapters, begin),
		cmocka_unit_test_setup(guids, begin),
		cmocka_unit_test_setup(a_list, begin),
		cmocka_unit_test_setup(sorts, begin),
	};

	setenv("URNIC_FABRIC", "lab", 1);
	setenv("URNIC_HCA", "h1", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
