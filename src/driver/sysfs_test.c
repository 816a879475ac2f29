/* SPDX-License-Identifier: BSD-2-Clause */
/* sysfs_test.c - the files of a device, from its description. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/sysfs.h"

struct fix {
	char root[40];
	struct sysfs s;
	struct port port[2];
	struct sysfs_dev d;
};

static void counters(struct tree *t, const struct sysfs_dev *d, unsigned port, bool hw)
{
	(void)d;
	tree_file(t, hw ? "h" : "c", "%u", port);
}

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	strcpy(f->root, "/tmp/sysfs-XXXXXX");
	assert_non_null(mkdtemp(f->root));
	f->port[0] = (struct port){
		.link_layer = IBV_LINK_LAYER_ETHERNET,
		.active = true,
		.speed = 32,
		.width = 1,
		.cap_flags = 0x10000,
		.pkeys = 1,
		.pkey = { 0xffff },
		.gids = 3,
		.gid = { [1] = { .gid.raw = { [10] = 0xff, 0xff, 192, 0, 2, 7 },
				 .used = true },
			 [2] = { .gid.raw = { 0x20, 1 }, .used = true, .v1 = true } },
	};
	f->d = (struct sysfs_dev){
		.name = "roce_none0",
		.desc = "here",
		.uverbs = "uverbs3",
		.netdev = "none0",
		.id = identity_default,
		.guid = htobe64(0x0102030405060708),
		.sys_guid = htobe64(0x0102030405060709),
		.index = 9,
		.ports = 1,
		.port = f->port,
		.counters = counters,
	};
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;

	tree_remove(f->root);
	free(f);
	return 0;
}

static void put(struct fix *f)
{
	sysfs_begin(&f->s, f->root, false);
	sysfs_put(&f->s, &f->d);
	assert_int_equal(sysfs_end(&f->s), 0);
}

/* Compares the first line of a file below class/; want NULL: there is none. */
static void check(const struct fix *f, const char *name, const char *want)
{
	char path[200], text[200] = "";
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/class/%s", f->root, name);
	fd = open(path, O_RDONLY);
	if (!want) {
		assert_int_equal(fd, -1);
		return;
	}
	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	assert_true(n > 0);
	text[strcspn(text, "\n")] = '\0';
	assert_string_equal(text, want);
}

static void roce_has_the_files_of_linux(void **state)
{
	static const struct {
		const char *name, *want;
	} rows[] = {
		/* clang-format off */
		{ "infiniband/roce_none0/node_type", "1: CA" },
		{ "infiniband/roce_none0/node_guid", "0102:0304:0506:0708" },
		{ "infiniband/roce_none0/sys_image_guid", "0102:0304:0506:0709" },
		{ "infiniband/roce_none0/hw_rev", "0x1" },
		{ "infiniband/roce_none0/node_desc", "here" },
		{ "infiniband/roce_none0/ports/1/state", "4: ACTIVE" },
		{ "infiniband/roce_none0/ports/1/phys_state", "5: LinkUp" },
		{ "infiniband/roce_none0/ports/1/rate", "25 Gb/sec (1X EDR)" },
		{ "infiniband/roce_none0/ports/1/lid", "0x0" },
		{ "infiniband/roce_none0/ports/1/lid_mask_count", "0" },
		{ "infiniband/roce_none0/ports/1/sm_lid", "0x0" },
		{ "infiniband/roce_none0/ports/1/sm_sl", "0" },
		{ "infiniband/roce_none0/ports/1/cap_mask", "0x00010000" },
		{ "infiniband/roce_none0/ports/1/link_layer", "Ethernet" },
		{ "infiniband/roce_none0/ports/1/pkeys/0", "0xffff" },
		{ "infiniband/roce_none0/ports/1/pkeys/1", NULL },
		{ "infiniband/roce_none0/ports/1/gids/0",
		  "0000:0000:0000:0000:0000:0000:0000:0000" },
		{ "infiniband/roce_none0/ports/1/gids/1",
		  "0000:0000:0000:0000:0000:ffff:c000:0207" },
		{ "infiniband/roce_none0/ports/1/gids/3", NULL },
		{ "infiniband/roce_none0/ports/1/gid_attrs/types/0", NULL },
		{ "infiniband/roce_none0/ports/1/gid_attrs/types/1", "RoCE v2" },
		{ "infiniband/roce_none0/ports/1/gid_attrs/types/2", "IB/RoCE v1" },
		{ "infiniband/roce_none0/ports/1/gid_attrs/ndevs/1", "none0" },
		{ "infiniband/roce_none0/ports/1/counters/c", "1" },
		{ "infiniband/roce_none0/ports/1/hw_counters/h", "1" },
		{ "infiniband/roce_none0/device/class", "0x020000" },
		{ "infiniband/roce_none0/device/net/none0/dev_port", "0" },
		{ "infiniband/roce_none0/device/infiniband/roce_none0/hca_type", "urnic" },
		{ "net/none0/device/infiniband/roce_none0/hca_type", "urnic" },
		{ "infiniband_verbs/abi_version", "6" },
		{ "infiniband_verbs/uverbs3/ibdev", "roce_none0" },
		{ "infiniband_verbs/uverbs3/dev", "231:195" },
		{ "infiniband_mad/umad0/ibdev", NULL },
		/* clang-format on */
	};
	struct fix *f = *state;

	put(f);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		check(f, rows[i].name, rows[i].want);
}

static void a_port_that_is_down_has_the_lowest_rate(void **state)
{
	struct fix *f = *state;

	f->port[0].active = false;
	put(f);
	check(f, "infiniband/roce_none0/ports/1/state", "1: DOWN");
	check(f, "infiniband/roce_none0/ports/1/phys_state", "3: Disabled");
	check(f, "infiniband/roce_none0/ports/1/rate", "2.5 Gb/sec (1X SDR)");
}

static void iwarp_is_an_rnic(void **state)
{
	struct fix *f = *state;

	f->d.iwarp = true;
	put(f);
	check(f, "infiniband/roce_none0/node_type", "4: RNIC");
	check(f, "infiniband/roce_none0/ports/1/gid_attrs/types/1", "IB/RoCE v1");
}

static void an_adapter_has_ports_and_umads(void **state)
{
	struct fix *f = *state;

	f->port[1] = (struct port){ .link_layer = IBV_LINK_LAYER_INFINIBAND,
				    .state = 2,
				    .phys_state = 5,
				    .speed = 64,
				    .width = 2,
				    .lid = 18,
				    .lmc = 2,
				    .sm_lid = 1 };
	f->d.netdev = f->d.uverbs = NULL;
	f->d.name = "ib_a";
	f->d.ports = 2;
	put(f);
	check(f, "infiniband/ib_a/ports/2/state", "2: INIT");
	check(f, "infiniband/ib_a/ports/2/rate", "200 Gb/sec (4X HDR)");
	check(f, "infiniband/ib_a/ports/2/lid", "0x12");
	check(f, "infiniband/ib_a/ports/2/lid_mask_count", "2");
	check(f, "infiniband/ib_a/ports/2/link_layer", "InfiniBand");
	check(f, "infiniband/ib_a/device/class", "0x020700");
	check(f, "infiniband_mad/umad1/ibdev", "ib_a");
	check(f, "infiniband_mad/umad1/port", "2");
	check(f, "infiniband_mad/issm0/port", "1");
	check(f, "infiniband_verbs/uverbs0", NULL);
}

static void a_live_round_has_counters_only(void **state)
{
	struct fix *f = *state;

	put(f);
	f->d.desc = "elsewhere";
	sysfs_begin(&f->s, f->root, true);
	sysfs_put(&f->s, &f->d);
	assert_int_equal(sysfs_end(&f->s), 0);
	check(f, "infiniband/roce_none0/node_desc", "here");
	check(f, "infiniband/roce_none0/ports/1/counters/c", "1");
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(roce_has_the_files_of_linux),
		TEST(a_port_that_is_down_has_the_lowest_rate),
		TEST(iwarp_is_an_rnic),
		TEST(an_adapter_has_ports_and_umads),
		TEST(a_live_round_has_counters_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
