/* SPDX-License-Identifier: BSD-2-Clause */
/* netport.c - see netport.h.  GIDs are the interface's addresses (IBTA annex A17), each
 * at an index that it keeps. */
#include "verbs/netport.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/addr.h"

enum { GID_LINK_LOCAL, GID_FIRST_V4, GID_OTHERS };

/* The index of GID n. */
static int index_of(int n)
{
	return caps.v1_gids ? 2 * n + 1 : n;
}

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

static void put_gid(struct gid_entry *e, const uint8_t ip[16], bool local_only)
{
	memset(e, 0, sizeof(*e));
	memcpy(e->gid.raw, ip, 16);
	e->used = true;
	e->local_only = local_only;
}

/* GID 0 if IPv6 is off: the link-local address that the kernel would have derived from
 * the MAC. */
static void put_synthesised(struct gid_entry *e, const struct netdev *net)
{
	uint8_t ip[16] = { 0 };

	if (net->loopback) {
		ip[15] = 1;
	} else {
		ip[0] = 0xfe;
		ip[1] = 0x80;
		memcpy(ip + 8, net->mac, 3);
		ip[8] ^= 2; /* EUI-64: flips the universal/local bit */
		ip[11] = 0xff;
		ip[12] = 0xfe;
		memcpy(ip + 13, net->mac + 3, 3);
	}
	put_gid(e, ip, true);
}

/* Puts the first address of net that fits and is not in the table yet. */
static void put_first(struct gid_entry *gid, int index, const struct netdev *net,
		      bool (*fits)(const struct netdev *, const uint8_t *))
{
	for (unsigned i = 0; i < addrs(net) && !gid[index].used; i++) {
		const uint8_t *ip = net->addr[i].ip;

		if (fits(net, ip) && !in_table(gid, ip))
			put_gid(&gid[index], ip, false);
	}
}

static bool is_for_v1(int index)
{
	return !caps.v1_gids && index >= GID_V1 && index < 2 * GID_V1;
}

static void put_others(struct gid_entry *gid, bool v1, const struct netdev *net)
{
	int n = GID_OTHERS;

	for (unsigned i = 0; i < addrs(net); i++) {
		const uint8_t *ip = net->addr[i].ip;

		if (in_table(gid, ip))
			continue;
		while (index_of(n) < GID_TABLE &&
		       (gid[index_of(n)].used || (v1 && is_for_v1(n))))
			n++;
		if (index_of(n) >= GID_TABLE)
			return;
		put_gid(&gid[index_of(n)], ip, false);
	}
}

/* iWARP finds its peers by IP address and port; as in Linux, the GID only names the
 * device. Loopback has no MAC and gets a locally administered one. */
static void put_mac(struct gid_entry *e, const struct netdev *net)
{
	static const uint8_t loopback[6] = { 0x02, 0x7f, 0, 0, 0, 1 };
	uint8_t ip[16] = { 0 };

	memcpy(ip, net->loopback ? loopback : net->mac, 6);
	put_gid(e, ip, false);
	e->ifindex = net->ifindex;
}

/* RoCE v1 frames need packet sockets, and lo is not Ethernet. */
static bool offers_v1(const struct netdev *net)
{
	return net->v1 && !net->one_gid && !net->loopback;
}

/* Adds a RoCE v1 entry for each of the first GID_V1 entries that may be used on the
 * wire. */
static void put_v1(struct gid_entry *gid)
{
	for (int i = 0; i < GID_V1; i++) {
		if (!gid[i].used || gid[i].local_only)
			continue;
		gid[GID_V1 + i] = gid[i];
		gid[GID_V1 + i].v1 = true;
	}
}

/* Adds one to each entry, in front of it; offered: packets of RoCE v1 can be sent. */
static void put_v1_first(struct gid_entry *gid, bool offered)
{
	for (int i = 1; i < GID_TABLE; i += 2) {
		gid[i - 1] = gid[i];
		gid[i - 1].v1 = gid[i].used && offered && !gid[i].local_only;
		gid[i - 1].said_v1 = gid[i].used && !gid[i - 1].v1;
	}
}

static void refresh(struct gid_entry *gid, const struct netdev *net)
{
	const bool v1 = offers_v1(net);

	for (int i = 0; i < GID_TABLE; i++)
		if (gid[i].local_only || gid_is_v1(&gid[i]) ||
		    !has_addr(net, gid[i].gid.raw))
			memset(&gid[i], 0, sizeof(gid[i]));
	put_first(gid, index_of(GID_LINK_LOCAL), net, is_link_local);
	if (!gid[index_of(GID_LINK_LOCAL)].used)
		put_synthesised(&gid[index_of(GID_LINK_LOCAL)], net);
	put_first(gid, index_of(GID_FIRST_V4), net, is_first_v4);
	if (!net->one_gid)
		put_others(gid, v1, net);
	for (int i = 0; i < GID_TABLE; i++)
		if (gid[i].used)
			gid[i].ifindex = net->ifindex;
	if (caps.v1_gids)
		put_v1_first(gid, v1);
	else if (v1)
		put_v1(gid);
}

/* --- the port ------------------------------------------------------------ */

enum ibv_mtu mtu_within(uint32_t payload)
{
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && mtu_bytes(mtu) > payload)
		mtu--;
	return mtu;
}

/* The port attributes that are constant while the interface exists. */
static struct port blank(const struct device_kind *kind)
{
	return (struct port){
		.link_layer = IBV_LINK_LAYER_ETHERNET,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.cap_flags =
			IBV_PORT_CM_SUP | (kind->mac_gid ? 0 : IBV_PORT_IP_BASED_GIDS),
		.pkeys = kind->datagrams,
		.pkey = { kind->datagrams ? PKEY_DEFAULT : 0 },
		.gids = kind->mac_gid ? 1 : caps.max_gids,
	};
}

static void fill_gids(struct port *p, const struct device_kind *kind,
		      const struct netdev *net)
{
	p->number = net->ifindex;
	p->active = net->running;
	p->active_mtu = mtu_within(net->payload);
	if (kind->mac_gid)
		put_mac(&p->gid[0], net);
	else
		refresh(p->gid, net);
}

struct net_device *net_device_of(struct device *dev)
{
	return container_of(dev, struct net_device, dev);
}

unsigned device_update(struct device *dev, const struct netdev *net)
{
	struct net_device *nd = net_device_of(dev);
	struct port port = device_port(dev);

	if (net) {
		fill_gids(&port, dev->kind, net);
	} else {
		port.active = false;
		memset(port.gid, 0, sizeof(port.gid));
	}
	lock_take(&dev->lock);
	nd->present = net;
	if (net)
		nd->net = *net;
	else
		nd->net.naddrs = 0;
	lock_give(&dev->lock);
	return device_fill(dev, &port);
}

static bool has_own_ip(struct device *dev, const uint8_t ip[16])
{
	const struct port port = device_port(dev);

	return memcmp(port.ip, ip, sizeof(port.ip)) == 0;
}

bool device_has_ip(struct device *dev, const uint8_t ip[16])
{
	bool has;

	if (addr_is_multicast(ip))
		return dev->kind->datagrams;
	if (dev->link_layer == IBV_LINK_LAYER_INFINIBAND)
		return has_own_ip(dev, ip) || device_has_gid(dev, ip);
	if (!dev->kind->mac_gid)
		return device_has_gid(dev, ip);
	lock_take(&dev->lock);
	has = has_addr(&net_device_of(dev)->net, ip);
	lock_give(&dev->lock);
	return has;
}

/* --- devices ------------------------------------------------------------- */

static_assert(DEVICE_KINDS == 3,
	      "each kind for which device_on_netdev() is a row; blank() "
	      "and fill_gids() have its port's attributes");
const struct device_kind *const netdev_kinds[NETDEV_KINDS] = {
	&device_roce,
	&device_iwarp,
};

static uint64_t guid_from_mac(const uint8_t mac[6])
{
	const uint8_t eui[8] = { mac[0] ^ 2, mac[1], mac[2], 0xff,
				 0xfe,	     mac[3], mac[4], mac[5] };
	uint64_t guid;

	memcpy(&guid, eui, sizeof(guid));
	return guid;
}

int device_create(const struct device_kind *kind, const struct netdev *net,
		  const struct identity *id, struct device **out)
{
	struct net_device *nd = calloc(1, sizeof(*nd));
	struct port port = blank(kind);

	if (!nd)
		return -ENOMEM;
	port.speed = (id ? id : &identity_default)->speed;
	port.width = (id ? id : &identity_default)->width;
	fill_gids(&port, kind, net);
	device_init(&nd->dev, kind, net->name, guid_from_mac(net->mac), &port, id);
	nd->present = true;
	nd->net = *net;
	*out = &nd->dev;
	return 0;
}
