/* SPDX-License-Identifier: BSD-2-Clause */
/* devices.c - urnic devices: what programs will see. */
#include <argp.h>
#include <arpa/inet.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device.h"
#include "nic/nic.h"
#include "sys/addr.h"
#include "sys/conf.h"
#include "urnic.h"

static const struct argp_option options[] = {
	{ "json", 'j', NULL, 0, "print JSON", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	if (key == ARGP_KEY_ARG)
		argp_usage(state);
	if (key != 'j')
		return ARGP_ERR_UNKNOWN;
	*(bool *)state->input = true;
	return 0;
}

static const char *state_name(enum ibv_port_state s)
{
	return s == IBV_PORT_ACTIVE ? "active" : "down";
}

/* As an IP address: IPv4-mapped ones are shown as IPv4. */
static const char *gid_text(const union ibv_gid *gid, char buf[INET6_ADDRSTRLEN])
{
	if (addr_is_v4(gid->raw))
		inet_ntop(AF_INET, gid->raw + 12, buf, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, gid->raw, buf, INET6_ADDRSTRLEN);
	return buf;
}

/* The device's GIDs, one call each. */
static void for_gids(struct device *dev,
		     void (*fn)(void *arg, int i, const struct gid_entry *e), void *arg)
{
	struct gid_entry e;

	for (int i = 0; i < GID_TABLE; i++) {
		if (device_query_gid(dev, 1, i, &e) == 0 && e.used)
			fn(arg, i, &e);
	}
}

static void print_gid(void *arg, int i, const struct gid_entry *e)
{
	bool *first = arg;
	char buf[INET6_ADDRSTRLEN];

	printf("%*s%3d  %s%s\n", *first ? 0 : 52, "", i, gid_text(&e->gid, buf),
	       e->local_only ? " (this host only)" : "");
	*first = false;
}

static void print_device(struct device *dev)
{
	struct ibv_port_attr port = { 0 };
	bool first = true;

	device_query_port(dev, 1, &port, sizeof(port));
	printf("%-20s %-15s %-7s %5u  ", dev->ibv.name, dev->net.name,
	       state_name(port.state), mtu_bytes(port.active_mtu));
	for_gids(dev, print_gid, &first);
	if (first)
		putchar('\n');
}

static void json_gid(void *arg, int i, const struct gid_entry *e)
{
	char buf[INET6_ADDRSTRLEN], raw[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, e->gid.raw, raw, sizeof(raw));
	json_array_append_new(arg, json_pack("{si ss ss sb}", "index", i, "gid", raw,
					     "address", gid_text(&e->gid, buf),
					     "local_only", (int)e->local_only));
}

static json_t *json_device(struct device *dev)
{
	struct ibv_port_attr port = { 0 };
	json_t *gids = json_array();

	device_query_port(dev, 1, &port, sizeof(port));
	for_gids(dev, json_gid, gids);
	return json_pack("{ss ss ss ss ss si si si si so}", "name", dev->ibv.name,
			 "netdev", dev->net.name, "transport",
			 device_is_iwarp(dev) ? "iWARP" : "RoCE v2", "uverbs",
			 dev->ibv.dev_name, "state", state_name(port.state), "mtu",
			 (int)mtu_bytes(port.active_mtu), "netdev_mtu", (int)dev->net.mtu,
			 "vendor_id", (int)dev->id.vendor_id, "vendor_part_id",
			 (int)dev->id.vendor_part_id, "gids", gids);
}

int cmd_devices(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "List the devices that verbs programs will see here: name,"
		       " network interface, state, path MTU, and the GID table"
		       " with its indices.",
	};
	struct device **dev = NULL;
	bool json = false;
	int n = 0, rc;

	argp_parse(&argp, argc, argv, 0, NULL, &json);
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
		json_dumpf(all, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(all);
	} else {
		printf("%-20s %-15s %-7s %5s  %3s  %s\n", "device", "netdev", "state",
		       "mtu", "gid", "address");
		for (int i = 0; i < n; i++)
			print_device(dev[i]);
	}
	free(dev);
	return 0;
}
