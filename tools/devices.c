/* SPDX-License-Identifier: BSD-2-Clause */
/* devices.c - urnic devices: lists the devices that programs will see. */
#include <argp.h>
#include <arpa/inet.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/nic.h"
#include "loopback.h"
#include "options.h"
#include "show.h"
#include "sys/addr.h"
#include "sys/conf.h"
#include "urnic.h"
#include "verbs/netport.h"

static const char *state_name(enum ibv_port_state s)
{
	return s == IBV_PORT_ACTIVE  ? "active"
	       : s == IBV_PORT_ARMED ? "armed"
	       : s == IBV_PORT_INIT  ? "init"
				     : "down";
}

static enum colour state_colour(enum ibv_port_state s)
{
	return s == IBV_PORT_ACTIVE			   ? GREEN
	       : s == IBV_PORT_ARMED || s == IBV_PORT_INIT ? YELLOW
							   : RED;
}

/* The device's network interface, or "fabric:NAME". */
static const char *place_of(struct device *dev, char buf[80])
{
	if (device_on_netdev(dev))
		return net_device_of(dev)->net.name;
	snprintf(buf, 80, "fabric:%s", conf_get()->fabric);
	return buf;
}

/* The device's network interface; an adapter of a fabric has none, and gets "-". */
static const struct netdev *net_of(struct device *dev)
{
	static const struct netdev none = { .name = "-" };

	return device_on_netdev(dev) ? &net_device_of(dev)->net : &none;
}

/* IPv4-mapped addresses are shown as IPv4. */
static const char *ip_text(const uint8_t ip[16], char buf[INET6_ADDRSTRLEN])
{
	if (addr_is_v4(ip))
		inet_ntop(AF_INET, ip + 12, buf, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, ip, buf, INET6_ADDRSTRLEN);
	return buf;
}

/* A RoCE GID is shown as an IP address; an iWARP device's GID is a MAC address. */
static const char *gid_text(const struct device *dev, const union ibv_gid *gid,
			    char buf[INET6_ADDRSTRLEN])
{
	const uint8_t *g = gid->raw;

	if (!dev->kind->mac_gid)
		return ip_text(g, buf);
	snprintf(buf, INET6_ADDRSTRLEN, "%02x:%02x:%02x:%02x:%02x:%02x", g[0], g[1], g[2],
		 g[3], g[4], g[5]);
	return buf;
}

struct row {
	struct device *dev;
	bool first; /* the next line is the first that is printed of this device */
	json_t *gids, *addresses;
};

/* Calls fn for each of the device's GIDs. */
static void for_gids(struct row *row,
		     void (*fn)(struct row *row, int i, const struct gid_entry *e))
{
	struct gid_entry e;

	for (int i = 0; i < GID_TABLE; i++) {
		if (device_query_gid(row->dev, 1, i, &e) == 0 && e.used)
			fn(row, i, &e);
	}
}

static void indent(struct row *row)
{
	printf("%*s", row->first ? 0 : 52, "");
	row->first = false;
}

static void print_gid(struct row *row, int i, const struct gid_entry *e)
{
	char buf[INET6_ADDRSTRLEN];

	indent(row);
	printf("%3d  %s%s\n", i, gid_text(row->dev, &e->gid, buf),
	       row->dev->kind->mac_gid ? " (MAC)"
	       : gid_is_v1(e)	       ? " (RoCE v1)"
	       : e->local_only	       ? " (reached from this host only)"
				       : "");
}

/* Calls fn for each IP address by which rdma_cm finds the device. */
static void for_addresses(struct row *row,
			  void (*fn)(struct row *row, const uint8_t ip[16]))
{
	static const uint8_t none[16];
	const struct port port = device_port(row->dev);
	const struct netdev *net = net_of(row->dev);

	if (memcmp(port.ip, none, sizeof(none)) != 0)
		fn(row, port.ip);
	for (unsigned i = 0; i < net->naddrs; i++)
		fn(row, net->addr[i].ip);
}

static void print_address(struct row *row, const uint8_t ip[16])
{
	char buf[INET6_ADDRSTRLEN];

	indent(row);
	printf("  -  %s\n", ip_text(ip, buf));
}

static void print_device(struct device *dev)
{
	struct row row = { .dev = dev, .first = true };
	struct ibv_port_attr port = { 0 };
	char buf[80];

	device_query_port(dev, 1, &port, sizeof(port));
	printf("%-20s %-15s %s%-7s%s %5u  ", dev->ibv.name, place_of(dev, buf),
	       show_colour(state_colour(port.state)), state_name(port.state),
	       show_colour(PLAIN), mtu_bytes(port.active_mtu));
	for_gids(&row, print_gid);
	if (dev->kind->mac_gid || !device_on_netdev(dev)) /* else they are its GIDs */
		for_addresses(&row, print_address);
	if (row.first)
		putchar('\n');
}

static void json_gid(struct row *row, int i, const struct gid_entry *e)
{
	char buf[INET6_ADDRSTRLEN], raw[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, e->gid.raw, raw, sizeof(raw));
	json_array_append_new(row->gids,
			      json_pack("{si ss ss sb ss}", "index", i, "gid", raw,
					"address", gid_text(row->dev, &e->gid, buf),
					"local_only", (int)e->local_only, "type",
					gid_is_v1(e) ? "RoCE v1" : row->dev->kind->word));
}

static void json_address(struct row *row, const uint8_t ip[16])
{
	char buf[INET6_ADDRSTRLEN];

	json_array_append_new(row->addresses, json_string(ip_text(ip, buf)));
}

static json_t *json_device(struct device *dev)
{
	struct row row = { .dev = dev, .gids = json_array(), .addresses = json_array() };
	struct ibv_port_attr port = { 0 };
	json_t *j;

	device_query_port(dev, 1, &port, sizeof(port));
	for_gids(&row, json_gid);
	for_addresses(&row, json_address);
	j = json_pack("{ss ss ss ss ss si si si si so so}", "name", dev->ibv.name,
		      "netdev", net_of(dev)->name, "transport", dev->kind->word, "uverbs",
		      dev->ibv.dev_name, "state", state_name(port.state), "mtu",
		      (int)mtu_bytes(port.active_mtu), "netdev_mtu",
		      (int)net_of(dev)->mtu, "vendor_id", (int)dev->id.vendor_id,
		      "vendor_part_id", (int)dev->id.vendor_part_id, "gids", row.gids,
		      "addresses", row.addresses);
	if (!device_on_netdev(dev))
		json_object_set_new(j, "fabric", json_string(conf_get()->fabric));
	return j;
}

/* Loopback's device must be asked for where there are others. */
static void print_left_out(void)
{
	char lo[IF_NAMESIZE], other[IF_NAMESIZE];

	if (loopback_left_out(lo, other))
		printf("The device of %s is left out, as no other host can reach it;"
		       " URNIC_DEVICES=%s,%s (urnic run -d) lists it, too.\n",
		       lo, other, lo);
}

int cmd_devices(int argc, char **argv)
{
	static const struct argp argp = {
		.options = show_options,
		.parser = show_parse,
		.doc = "List the devices that verbs programs will see here: name,"
		       " network interface, state, path MTU, and the GID table"
		       " with its indices.\vExit status: 1 if there is none.",
	};
	struct device **dev = NULL;
	bool json = false;
	int n = 0, rc;

	options_parse(&argp, argc, argv, 0, &json);
	if (!conf_get())
		return EXIT_USAGE;
	rc = nic_devices(&dev, &n);
	if (rc != 0) {
		fprintf(stderr, "urnic devices: %s\n", strerror(-rc));
		return 1;
	}
	if (json) {
		json_t *all = json_array();

		for (int i = 0; i < n; i++)
			json_array_append_new(all, json_device(dev[i]));
		show_json(all);
	} else {
		printf("%-20s %-15s %-7s %5s  %3s  %s\n", "device", "netdev", "state",
		       "mtu", "gid", "address");
		for (int i = 0; i < n; i++)
			print_device(dev[i]);
		print_left_out();
	}
	free(dev);
	return n ? 0 : 1; /* the library has logged the reason */
}
