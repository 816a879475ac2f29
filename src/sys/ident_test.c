/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "sys/ident.h"

static struct ident id;
static char err[256];

static void bad(const char *spec, const char *names)
{
	struct ident was = id;

	assert_int_equal(ident_parse(spec, &id, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, names));
	assert_memory_equal(&was, &id, sizeof(id));
}

static void good(const char *spec)
{
	assert_int_equal(ident_parse(spec, &id, err, sizeof(err)), 0);
}

static void t_presets(void **state)
{
	(void)state;
	good("urnic");
	assert_int_equal(id.vendor_id, IDENT_VENDOR);
	assert_int_equal(id.vendor_part_id, IDENT_PART);
	assert_int_equal(id.hw_ver, IDENT_HW);
	/* Locally administered, not a group address */
	assert_int_equal(id.vendor_id >> 16 & 3, 2);
	good("connectx");
	assert_int_equal(id.vendor_id, 0x02c9);
	assert_int_equal(id.vendor_part_id, 4119);
	assert_int_equal(id.width, 2);
}

static void t_pairs(void **state)
{
	(void)state;
	good("vendor=0x1234,part=5,hw=3,fw=7.8,speed=100,width=12x,name=mlx5_%d");
	assert_int_equal(id.vendor_id, 0x1234);
	assert_int_equal(id.vendor_part_id, 5);
	assert_int_equal(id.hw_ver, 3);
	assert_string_equal(id.fw_ver, "7.8");
	assert_int_equal(id.speed, 128);
	assert_int_equal(id.width, 8);
	good("connectx,speed=50");
	assert_int_equal(id.vendor_id, 0x02c9);
	assert_int_equal(id.speed, 64);
}

static void t_wrong(void **state)
{
	(void)state;
	good("urnic");
	bad("", "empty");
	bad("mellanox", "mellanox");
	bad("speed=25,urnic", "'urnic'");
	bad("urnic,vendr=1", "vendr");
	bad("vendor=x", "'x' is no value for vendor");
	bad("vendor=-1", "vendor");
	bad("vendor=0x100000000", "vendor");
	bad("speed=11", "speed");
	bad("width=3x", "width");
	bad("fw=", "fw");
	bad("name=plain", "name");
	bad("name=%s%s", "name");
	bad("name=a/%s", "name");
	bad("name=%n", "name");
}

static void t_name(void **state)
{
	char name[64];

	(void)state;
	good("urnic");
	ident_name(&id, "eth0", 3, name);
	assert_string_equal(name, "roce_eth0");
	good("name=mlx5_%d");
	ident_name(&id, "eth0", 3, name);
	assert_string_equal(name, "mlx5_3");
	good("name=a_%s_b");
	ident_name(&id, "eth0", 3, name);
	assert_string_equal(name, "a_eth0_b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_presets),
		cmocka_unit_test(t_pairs),
		cmocka_unit_test(t_wrong),
		cmocka_unit_test(t_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
