/* SPDX-License-Identifier: BSD-2-Clause */
/* sysfs_pci.c - the PCI function of a device in /sys: its interface's, or a made-up one.
 *
 * A made-up function is one of its own for each device, since scripts compare the file
 * `resource' of devices and interfaces, and tests take the only name in `net'. It lies
 * below the host's first bridge, from which programs then learn how far away it is from
 * processors and GPUs. It is alone on a bus, since NCCL takes what differs only in device
 * and function for the ports of one card. The bus is in the domain ffff, where hardware
 * has none; ffff down to ff00 on hosts with more than 256 interfaces. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/sysfs.h"
#include "sys/ident.h"

enum {
	TEXT = 4096, /* bytes that a file of /sys has at most */
	CLASS_ETHERNET = 0x020000,
	CLASS_INFINIBAND = 0x020700,
	CLASS_HOST_BRIDGE = 0x0600,
	CLASS_PCI_BRIDGE = 0x0604,
};

/* Reads a file; returns false if there is none, or it is empty. */
static bool read_text(const char *dir, const char *name, char text[TEXT])
{
	char path[PATH_MAX + 80];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%.*s/%.64s", PATH_MAX, dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, TEXT - 1);
	if (fd >= 0)
		close(fd);
	if (n > 0)
		text[n] = '\0';
	return n > 0;
}

/* Is name of the form 0000:00:03.0? */
static bool is_function(const char *name)
{
	unsigned domain, bus, slot, fn;
	int end = 0;

	return sscanf(name, "%x:%x:%x.%x%n", &domain, &bus, &slot, &fn, &end) == 4 &&
	       !name[end];
}

/* The interface's nearest ancestor that is a PCI function (a virtio device's parent). */
static bool path_of_netdev(const char *netdev, char path[PATH_MAX])
{
	char link[80], real[PATH_MAX];
	char *last;

	snprintf(link, sizeof(link), "/sys/class/net/%.32s/device", netdev);
	if (!realpath(link, real))
		return false;
	while ((last = strrchr(real, '/')) && last != real && !is_function(last + 1))
		*last = '\0';
	if (!last || last == real || strncmp(real, "/sys/", 5) != 0)
		return false;
	snprintf(path, PATH_MAX, "%s", real + 5);
	return true;
}

static unsigned class_of(const char *name)
{
	char dir[300], text[TEXT];

	snprintf(dir, sizeof(dir), "/sys/bus/pci/devices/%s", name);
	return read_text(dir, "class", text) ? (unsigned)strtoul(text, NULL, 16) >> 8 : 0;
}

/* Finds the first PCI bridge, else the first host bridge, else leaves path alone. */
static void find_bridge(char path[PATH_MAX])
{
	char link[320], real[PATH_MAX], best[NAME_MAX + 1] = "";
	DIR *dir = opendir("/sys/bus/pci/devices");
	unsigned best_class = 0;
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		unsigned class = class_of(e->d_name);

		if ((class != CLASS_HOST_BRIDGE && class != CLASS_PCI_BRIDGE) ||
		    class < best_class ||
		    (class == best_class && strcmp(e->d_name, best) > 0))
			continue;
		best_class = class;
		snprintf(best, sizeof(best), "%s", e->d_name);
	}
	if (dir)
		closedir(dir);
	snprintf(link, sizeof(link), "/sys/bus/pci/devices/%s", best);
	if (*best && realpath(link, real) && strncmp(real, "/sys/", 5) == 0)
		snprintf(path, PATH_MAX, "%s", real + 5);
}

void sysfs_pci_path(const struct sysfs_dev *d, char path[PATH_MAX])
{
	size_t n;

	if (d->netdev && path_of_netdev(d->netdev, path))
		return;
	snprintf(path, PATH_MAX, "devices/pciffff:00");
	find_bridge(path);
	n = strlen(path);
	snprintf(path + n, PATH_MAX - n, "/ff%02x:%02x:00.0",
		 0xff - (d->index >> 8 & 0xff), d->index & 0xff);
}

/* A mask of all processors, as in local_cpus: "ffff,ffffffff". */
static void all_cpus(char text[TEXT])
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	size_t n = 0;

	for (long word = (cpus - 1) / 32; word >= 0 && n < TEXT - 12; word--) {
		long bits = cpus - word * 32;
		unsigned mask = bits >= 32 ? 0xffffffff : (1u << bits) - 1;

		n += (size_t)snprintf(text + n, TEXT - n, "%s%0*x", n ? "," : "",
				      n ? 8 : 1, mask);
	}
}

/* Writes a file with what the real function has, else its bridge, else this text. */
static void put_pci(struct tree *t, const char *real, const char *name, const char *text)
{
	char found[TEXT];

	if (real && read_text(real, name, found))
		tree_text(t, name, found);
	else
		tree_file(t, name, "%s", text);
}

static void put_hex(struct tree *t, const char *real, const char *name, int digits,
		    unsigned value)
{
	char text[20];

	snprintf(text, sizeof(text), "0x%0*x", digits, value);
	put_pci(t, real, name, text);
}

/* Where the function is: near which processors, and how fast its link is. */
static void put_place(struct tree *t, const char *near)
{
	char cpus[TEXT] = "";

	put_pci(t, near, "numa_node", "-1");
	all_cpus(cpus);
	put_pci(t, near, "local_cpus", cpus);
	if (!read_text("/sys/devices/system/cpu", "present", cpus))
		snprintf(cpus, sizeof(cpus), "0");
	cpus[strcspn(cpus, "\n")] = '\0';
	put_pci(t, near, "local_cpulist", cpus);
	put_pci(t, near, "current_link_speed", "16.0 GT/s PCIe");
	put_pci(t, near, "max_link_speed", "16.0 GT/s PCIe");
	put_pci(t, near, "current_link_width", "16");
	put_pci(t, near, "max_link_width", "16");
}

static void put_net(struct tree *t, const char *netdev)
{
	static const char *const files[] = { "address", "dev_id", "dev_port",
					     "ifindex", "mtu",	  "operstate",
					     "type" };
	size_t net = tree_enter(t, "net"), was = tree_enter(t, netdev);
	char real[80];

	snprintf(real, sizeof(real), "/sys/class/net/%.32s", netdev);
	for (unsigned i = 0; i < sizeof(files) / sizeof(*files); i++)
		put_pci(t, real, files[i], "0");
	tree_leave(t, was);
	tree_leave(t, net);
}

/* Makes a link in a folder of the tree, which is entered, to another. */
static void put_way(struct tree *t, const char *in, const char *name, const char *to)
{
	char target[PATH_MAX + 200] = "";
	size_t n = 0;

	for (; in && n < 180; in = strchr(in + 1, '/'))
		n += (size_t)snprintf(target + n, sizeof(target) - n, "../");
	snprintf(target + n, sizeof(target) - n, "%s", to);
	tree_link(t, name, target);
}

void sysfs_pci_ways(struct tree *t, const char *path)
{
	const char *function = strrchr(path, '/') + 1;
	char bus[8], parent[PATH_MAX + 20];
	size_t was = tree_enter_path(t, "bus/pci/devices");

	put_way(t, "bus/pci/devices", function, path);
	tree_leave(t, was);
	snprintf(bus, sizeof(bus), "%.7s", function);
	snprintf(parent, sizeof(parent), "%.*s/pci_bus/%s", (int)(function - 1 - path),
		 path, bus);
	tree_leave(t, tree_enter_path(t, parent));
	was = tree_enter_path(t, "class/pci_bus");
	put_way(t, "class/pci_bus", bus, parent);
	tree_leave(t, was);
}

void sysfs_pci_put(struct tree *t, const struct sysfs_dev *d, const char *path)
{
	const unsigned class = d->netdev ? CLASS_ETHERNET : CLASS_INFINIBAND;
	char real[PATH_MAX + 8], near[PATH_MAX + 8], text[200];
	const char *function = strrchr(path, '/') + 1;

	snprintf(real, sizeof(real), "/sys/%s", path);
	snprintf(near, sizeof(near), "%s", real);
	if (access(real, F_OK) != 0)
		*strrchr(near, '/') = '\0';
	put_hex(t, real, "vendor", 4, d->id.vendor_id & 0xffff);
	put_hex(t, real, "device", 4, d->id.vendor_part_id & 0xffff);
	put_hex(t, real, "subsystem_vendor", 4, d->id.vendor_id & 0xffff);
	put_hex(t, real, "subsystem_device", 4, d->id.vendor_part_id & 0xffff);
	put_hex(t, real, "class", 6, class);
	put_hex(t, real, "revision", 2, d->id.hw_ver & 0xff);
	put_pci(t, real, "irq", "0");
	/* a range that no other function has, since scripts compare this file */
	snprintf(text, sizeof(text), "0x%016llx 0x%016llx 0x%016x",
		 0xffffull << 48 | (unsigned long long)d->index << 12,
		 0xffffull << 48 | (unsigned long long)d->index << 12 | 0xfff, 0x40200);
	put_pci(t, real, "resource", text);
	snprintf(text, sizeof(text),
		 "PCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SLOT_NAME=%.20s", class,
		 d->id.vendor_id & 0xffff, d->id.vendor_part_id & 0xffff, function);
	put_pci(t, real, "uevent", text);
	put_place(t, near);
	put_way(t, path, "subsystem", "bus/pci");
	if (d->netdev)
		put_net(t, d->netdev);
}
