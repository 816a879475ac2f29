/* SPDX-License-Identifier: BSD-2-Clause */
/* netport.h - a network interface as the owner of a port: what its devices are filled
 * with. */
#ifndef CORE_NETPORT_H
#define CORE_NETPORT_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/device.h"

/* What the network interface is like now; nic/netdev.c fills it. */
struct netdev {
	char name[IF_NAMESIZE];
	uint32_t ifindex;
	uint8_t mac[6];
	uint32_t mtu;
	uint32_t payload; /* of the longest packet, as the link over it has it */
	bool running, loopback;
	unsigned naddrs;
	struct {
		uint8_t ip[16];
	} addr[GID_TABLE]; /* IPv4 mapped */
};

/* A device of an interface. */
struct net_device {
	struct device dev; /* dev.lock guards what follows, too */
	bool present;	   /* its interface still exists */
	struct netdev net;
};

struct net_device *net_device_of(struct device *dev);

/* The kinds of device that an interface can have, in the order of lists of devices. */
enum { NETDEV_KINDS = 2 };
extern const struct device_kind *const netdev_kinds[NETDEV_KINDS];

/* Make a device of that kind for an interface.  id NULL: identity_default.
 * 0 or -ENOMEM. */
int device_create(const struct device_kind *kind, const struct netdev *net,
		  const struct identity *id, struct device **out);

/* The interface changed, or (net NULL) is gone.  GIDs keep their index while
 * their address stays; GID 0 is the IPv6 link-local address (::1 on loopback;
 * synthesised from the MAC where there is none), GID 1 the first IPv4 address
 * if there is one, the others follow from 2 on; with URNIC_LINK=raw the first
 * GID_V1 are there as RoCE v1, too.  (mac_gid: GID 0 alone, which
 * is the MAC and then zeroes.)  Returns what device_fill() does. */
unsigned device_update(struct device *dev, const struct netdev *net);

/* Is ip one of the addresses of dev's interface (or, with datagrams, a multicast
 * group)? */
bool device_has_ip(struct device *dev, const uint8_t ip[16]);

enum ibv_mtu mtu_within(uint32_t payload); /* the largest one; at least 256 */

#endif
