/* SPDX-License-Identifier: BSD-2-Clause */
/* sysfs_pci_test.c - the PCI function of a device without a real one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/sysfs.h"

static struct sysfs_dev dev(unsigned index)
{
	return (struct sysfs_dev){ .name = "roce_none0",
				   .netdev = "none0",
				   .id = { .vendor_id = 0x15b3,
					   .vendor_part_id = 0x1017 },
				   .index = index };
}

static void each_device_has_a_function(void **state)
{
	static const struct {
		unsigned index;
		const char *name;
	} rows[] = { { 0, "/ffff:00:00.0" },
		     { 7, "/ffff:07:00.0" },
		     { 0x1ff, "/fffe:ff:00.0" },
		     { 0xffff, "/ff00:ff:00.0" } };
	char path[PATH_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct sysfs_dev d = dev(rows[i].index);

		sysfs_pci_path(&d, path);
		assert_int_equal(strncmp(path, "devices/pci", 11), 0);
		assert_string_equal(strrchr(path, '/'), rows[i].name);
	}
}

/* Reads a file below root/devices/pcitest, where the functions are. */
static void read_file(const char *root, const char *name, char text[200])
{
	char path[200];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/devices/pcitest/%s", root, name);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		fail_msg("%s is missing", path);
	n = read(fd, text, 199);
	close(fd);
	assert_true(n > 1);
	text[n - 1] = '\0';
}

static void a_function_says_what_and_where_it_is(void **state)
{
	static const char *const also[] = { "numa_node",	  "local_cpus",
					    "local_cpulist",	  "current_link_speed",
					    "current_link_width", "max_link_speed",
					    "max_link_width",	  "net/none0/dev_port" };
	char root[] = "/tmp/sysfs-pci-XXXXXX", text[200], other[200];
	struct tree *t = malloc(sizeof(*t));

	(void)state;
	assert_non_null(t);
	assert_non_null(mkdtemp(root));
	tree_begin(t, root, false);
	for (unsigned i = 1; i < 3; i++) {
		const struct sysfs_dev d = dev(i);
		char path[80];
		size_t was;

		snprintf(path, sizeof(path), "devices/pcitest/f%u", i);
		was = tree_enter_path(t, path);
		sysfs_pci_put(t, &d, path);
		tree_leave(t, was);
	}
	assert_int_equal(tree_end(t), 0);
	read_file(root, "f1/vendor", text);
	assert_string_equal(text, "0x15b3");
	read_file(root, "f1/device", text);
	assert_string_equal(text, "0x1017");
	read_file(root, "f1/class", text);
	assert_string_equal(text, "0x020000");
	for (size_t i = 0; i < sizeof(also) / sizeof(*also); i++) {
		snprintf(other, sizeof(other), "f1/%s", also[i]);
		read_file(root, other, text);
	}
	read_file(root, "f1/resource", text);
	read_file(root, "f2/resource", other);
	assert_string_not_equal(text, other);
	tree_remove(root);
	free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_device_has_a_function),
		cmocka_unit_test(a_function_says_what_and_where_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
