/* SPDX-License-Identifier: BSD-2-Clause */
/* The pair of adapters of a host, over a fabric of one adapter. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "abi/umad_own.h"
#include "fabric/port/plug.h"

struct umad_ca_pair {
	char smi_name[20];
	uint32_t smi_preferred_port;
	char gsi_name[20];
	uint32_t gsi_preferred_port;
};

int umad_open_port(const char *ca_name, int portnum);
int umad_open_smi_port(const char *ca_name, int portnum);
int umad_get_smi_gsi_pairs(struct umad_ca_pair cas[], size_t max);
int umad_get_smi_gsi_pair_by_ca_name(const char *devname, uint8_t portnum,
				     struct umad_ca_pair *ca_pair, unsigned enforce_smi);

static int place_rc;

int umad_place(struct umad_place *at, struct plug_ca *ca)
{
	*at = (struct umad_place){ "lab", "h1" };
	*ca = (struct plug_ca){ .ports = 3, .name = "urnic0" };
	return place_rc;
}

/* Port 3 works best. */
int umad_resolve(struct umad_place *at, const char *ca_name, int *port)
{
	struct plug_ca ca;
	int rc = umad_place(at, &ca);

	if (rc)
		return rc;
	if ((ca_name && strcmp(ca_name, ca.name) != 0) || *port > 3)
		return -ENODEV;
	if (!*port)
		*port = 3;
	return 0;
}

int umad_open_port(const char *ca_name, int portnum)
{
	assert_string_equal(ca_name, "urnic0");
	return portnum + 70;
}

static int begin(void **state)
{
	(void)state;
	place_rc = 0;
	return 0;
}

static void one_pair(void **state)
{
	struct umad_ca_pair p[2];

	(void)state;
	memset(p, 0x55, sizeof(p));
	assert_int_equal(umad_get_smi_gsi_pairs(p, 2), 1);
	assert_string_equal(p[0].smi_name, "urnic0");
	assert_string_equal(p[0].gsi_name, "urnic0");
	assert_int_equal(p[0].smi_preferred_port, 0);
	assert_int_equal(p[1].smi_name[0], 0);
	assert_int_equal(umad_get_smi_gsi_pairs(NULL, 2), -1);
	memset(p, 0x55, sizeof(p));
	assert_int_equal(umad_get_smi_gsi_pairs(p, 0), 0);
	assert_int_equal(p[0].smi_name[0], 0x55);
	place_rc = -ENODEV;
	assert_int_equal(umad_get_smi_gsi_pairs(p, 1), 0);
	assert_int_equal(p[0].smi_name[0], 0);
}

static void by_name(void **state)
{
	static const struct {
		const char *name;
		uint8_t port;
		int rc;
		uint32_t found;
	} row[] = {
		{ NULL, 0, 0, 3 },	     { "urnic0", 0, 0, 3 },
		{ "urnic0", 2, 0, 2 },	     { NULL, 2, 0, 2 },
		{ "urnic0", 4, -ENODEV, 0 }, { "mlx5_0", 0, -ENODEV, 0 },
	};
	struct umad_ca_pair p;

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		memset(&p, 0x55, sizeof(p));
		errno = 0;
		assert_int_equal(umad_get_smi_gsi_pair_by_ca_name(row[i].name,
								  row[i].port, &p, i % 2),
				 row[i].rc);
		assert_int_equal(errno, -row[i].rc);
		assert_string_equal(p.smi_name, row[i].rc ? "" : "urnic0");
		assert_string_equal(p.gsi_name, p.smi_name);
		assert_int_equal(p.smi_preferred_port, row[i].found);
		assert_int_equal(p.gsi_preferred_port, row[i].found);
	}
	assert_int_equal(umad_get_smi_gsi_pair_by_ca_name("urnic0", 1, NULL, 0), -1);
	place_rc = -EIO;
	assert_int_equal(umad_get_smi_gsi_pair_by_ca_name(NULL, 0, &p, 1), -ENODEV);
}

static void smi_port(void **state)
{
	(void)state;
	assert_int_equal(umad_open_smi_port("urnic0", 2), 72);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(one_pair, begin),
		cmocka_unit_test_setup(by_name, begin),
		cmocka_unit_test(smi_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
