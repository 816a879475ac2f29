/* SPDX-License-Identifier: BSD-2-Clause */
/* gid.c - the GID table of a device (IBTA annex A17): its interface's
 * addresses, each at an index that it keeps.  See device.h. */
#include <errno.h>
#include <string.h>

#include "core/device.h"
#include "sys/addr.h"
#include "sys/conf.h"

enum { GID_LINK_LOCAL, GID_FIRST_V4, GID_OTHERS };

static bool is_link_local(const struct netdev *net, const uint8_t ip[16])
{
	static const uint8_t loopback[16] = { [15] = 1 };

	if (net->loopback)
		return memcmp(ip, loopback, 16) == 0;
	return addr_is_link_local(ip);
}

static bool is_first_v4(const struct netdev *net, const uint8_t ip[16])
{
	(void)net;
	return addr_is_v4(ip);
}

static unsigned addrs(const struct netdev *net)
{
	return net->naddrs < GID_TABLE ? net->naddrs : GID_TABLE;
}

static bool has_addr(const struct netdev *net, const uint8_t ip[16])
{
	for (unsigned i = 0; i < addrs(net); i++)
		if (memcmp(net->addr[i].ip, ip, 16) == 0)
			return true;
	return false;
}

static bool in_table(const struct gid_entry *gid, const uint8_t ip[16])
{
	for (int i = 0; i < GID_TABLE; i++)
		if (gid[i].used && memcmp(gid[i].gid.raw, ip, 16) == 0)
			return true;
	return false;
}

static void put(struct gid_entry *e, const uint8_t ip[16], bool local_only)
{
	memset(e, 0, sizeof(*e));
	memcpy(e->gid.raw, ip, 16);
	e->used = true;
	e->local_only = local_only;
}

/* GID 0 where IPv6 is off: what the kernel would have made of the MAC. */
static void put_synthesised(struct gid_entry *e, const struct netdev *net)
{
	uint8_t ip[16] = { 0 };

	if (net->loopback) {
		ip[15] = 1;
	} else {
		ip[0] = 0xfe;
		ip[1] = 0x80;
		memcpy(ip + 8, net->mac, 3);
		ip[8] ^= 2; /* EUI-64: universal/local */
		ip[11] = 0xff;
		ip[12] = 0xfe;
		memcpy(ip + 13, net->mac + 3, 3);
	}
	put(e, ip, true);
}

/* The first of net's addresses that fits and is nowhere in the table yet. */
static void put_first(struct gid_entry *gid, int index, const struct netdev *net,
		      bool (*fits)(const struct netdev *, const uint8_t *))
{
	for (unsigned i = 0; i < addrs(net) && !gid[index].used; i++) {
		const uint8_t *ip = net->addr[i].ip;

		if (fits(net, ip) && !in_table(gid, ip))
			put(&gid[index], ip, false);
	}
}

static void put_others(struct gid_entry *gid, const struct netdev *net)
{
	int at = GID_OTHERS;

	for (unsigned i = 0; i < addrs(net); i++) {
		const uint8_t *ip = net->addr[i].ip;

		if (in_table(gid, ip))
			continue;
		while (at < GID_TABLE && gid[at].used)
			at++;
		if (at == GID_TABLE)
			return;
		put(&gid[at], ip, false);
	}
}

/* iWARP finds its peers by IP address and port; the GID only names the device,
 * as Linux has it.  Loopback has no MAC: a local one. */
static void put_mac(struct gid_entry *e, const struct netdev *net)
{
	static const uint8_t loopback[6] = { 0x02, 0x7f, 0, 0, 0, 1 };
	uint8_t ip[16] = { 0 };

	memcpy(ip, net->loopback ? loopback : net->mac, 6);
	put(e, ip, false);
	e->ifindex = net->ifindex;
}

static void refresh(struct gid_entry *gid, const struct netdev *net)
{
	for (int i = 0; i < GID_TABLE; i++)
		if (gid[i].local_only || !has_addr(net, gid[i].gid.raw))
			memset(&gid[i], 0, sizeof(gid[i]));
	put_first(gid, GID_LINK_LOCAL, net, is_link_local);
	if (!gid[GID_LINK_LOCAL].used)
		put_synthesised(&gid[GID_LINK_LOCAL], net);
	put_first(gid, GID_FIRST_V4, net, is_first_v4);
	if (!conf_get() || !conf_get()->one_gid)
		put_others(gid, net);
	for (int i = 0; i < GID_TABLE; i++)
		if (gid[i].used)
			gid[i].ifindex = net->ifindex;
}

static bool same_gids(const struct gid_entry *a, const struct gid_entry *b)
{
	for (int i = 0; i < GID_TABLE; i++)
		if (a[i].used != b[i].used || a[i].ifindex != b[i].ifindex ||
		    memcmp(a[i].gid.raw, b[i].gid.raw, 16))
			return false;
	return true;
}

unsigned device_update(struct device *dev, const struct netdev *net)
{
	struct gid_entry gid[GID_TABLE];
	unsigned changed = 0;
	bool was_up;

	lock_take(&dev->lock);
	was_up = dev->present && dev->net.running;
	memcpy(gid, dev->gid, sizeof(gid));
	dev->present = net;
	if (net) {
		dev->net = *net;
		if (device_is_iwarp(dev))
			put_mac(&gid[0], net);
		else
			refresh(gid, net);
	} else {
		dev->net.running = false;
		dev->net.naddrs = 0;
		memset(gid, 0, sizeof(gid));
	}
	if (!same_gids(gid, dev->gid))
		changed |= DEVICE_GID_CHANGED;
	if (was_up != (dev->present && dev->net.running))
		changed |= DEVICE_PORT_CHANGED;
	memcpy(dev->gid, gid, sizeof(gid));
	lock_give(&dev->lock);
	return changed;
}

bool device_has_ip(struct device *dev, const uint8_t ip[16])
{
	bool has;

	if (addr_is_multicast(ip))
		return !device_is_iwarp(dev);
	lock_take(&dev->lock);
	has = device_is_iwarp(dev) ? has_addr(&dev->net, ip) : in_table(dev->gid, ip);
	lock_give(&dev->lock);
	return has;
}

int device_gids(const struct device *dev)
{
	return device_is_iwarp(dev) ? 1 : GID_TABLE;
}

int device_query_gid(struct device *dev, uint8_t port, int index, struct gid_entry *out)
{
	if (port != 1 || index < 0 || index >= device_gids(dev))
		return -EINVAL;
	lock_take(&dev->lock);
	*out = dev->gid[index];
	lock_give(&dev->lock);
	return 0;
}
