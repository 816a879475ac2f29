/* SPDX-License-Identifier: BSD-2-Clause */
/* pick_test.c - which interfaces a list of names selects, and which names match no
 * interface. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "driver/pick.h"

/* clang-format off */
static const struct netdev nets[] = {
	{ .name = "eth0", .running = true }, { .name = "eth0.5", .running = true },
	{ .name = "lo", .running = true, .loopback = true },
};
/* clang-format on */
enum { NETS = sizeof(nets) / sizeof(nets[0]) };

static const struct {
	const char *list, *roce, *iwarp, *unknown;
} rows[] = {
	/* clang-format off */
	{ "",                       "eth0 eth0.5",    "",     "" },
	{ "eth0",                   "eth0",           "",     "" },
	{ "roce_eth0",              "eth0",           "",     "" },
	{ "iwarp_eth0",             "",               "eth0", "" },
	{ "eth0,iwarp_eth0",        "eth0",           "eth0", "" },
	{ " ,lo, , iwarp_lo,",      "lo",             "lo",   "" },
	{ "eth0.5",                 "eth0.5",         "",     "" },
	{ "eth",                    "",               "",     "eth" },
	{ "eth00,lo,eth77",         "lo",             "",     "eth00, eth77" },
	{ "roce_,iwarp_,roceeth0",  "",               "",     "roce_, iwarp_, roceeth0" },
	{ "iwarp_roce_lo lo",       "lo",             "",     "iwarp_roce_lo" },
	/* clang-format on */
};

static void lists_give_devices(void **state)
{
	(void)state;
	for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
		for (int i = 0; i < NETS; i++) {
			assert_int_equal(pick_device(rows[r].list, nets, NETS, i,
						     &device_roce),
					 pick_has(rows[r].roce, nets[i].name));
			assert_int_equal(pick_device(rows[r].list, nets, NETS, i,
						     &device_iwarp),
					 pick_has(rows[r].iwarp, nets[i].name));
		}
		assert_int_equal(pick_some(rows[r].list, nets, NETS),
				 *rows[r].roce || *rows[r].iwarp);
	}
}

/* It gets a device unasked only where it is alone. */
static void loopback_is_left_out(void **state)
{
	const struct netdev *lo = &nets[NETS - 1];
	const struct netdev with_none_up[] = { { .name = "docker0" }, *lo };

	(void)state;
	assert_ptr_equal(pick_left_out("", nets, NETS, &device_roce), lo);
	assert_null(pick_left_out("", nets, NETS, &device_iwarp)); /* there is none */
	assert_null(pick_left_out("eth0", nets, NETS, &device_roce));
	assert_null(pick_left_out("lo", nets, NETS, &device_roce));
	assert_null(pick_left_out("", lo, 1, &device_roce));
	assert_null(pick_left_out("", with_none_up, 2, &device_roce));
	assert_true(pick_device("", with_none_up, 2, 0, &device_roce));
	assert_true(pick_device("", with_none_up, 2, 1, &device_roce));
	assert_true(pick_device("", lo, 1, 0, &device_roce));
	assert_false(pick_device("", lo, 1, 0, &device_iwarp));
}

static void names_of_no_interface_are_told(void **state)
{
	(void)state;
	for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
		char out[64];
		int n = pick_unknown(rows[r].list, nets, NETS, out, sizeof(out));

		assert_string_equal(out, rows[r].unknown);
		assert_int_equal(n > 0, *out != '\0');
	}
}

static void texts_are_cut(void **state)
{
	char out[12];

	(void)state;
	assert_int_equal(pick_unknown("eins,zwei,drei", nets, NETS, out, sizeof(out)), 3);
	assert_string_equal(out, "eins, zwei,");
	pick_names(nets, NETS, out, 5);
	assert_string_equal(out, "eth0");
	pick_names(nets, 0, out, sizeof(out));
	assert_string_equal(out, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_give_devices),
		cmocka_unit_test(loopback_is_left_out),
		cmocka_unit_test(names_of_no_interface_are_told),
		cmocka_unit_test(texts_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
