/* SPDX-License-Identifier: BSD-2-Clause */
/* netport.h - ports owned by a network interface: their GID tables and their devices. */
#ifndef VERBS_NETPORT_H
#define VERBS_NETPORT_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "verbs/device.h"

/* The present state of a network interface; driver/netdev.c fills it. */
struct netdev {
	char name[IF_NAMESIZE];
	uint32_t ifindex;
	uint8_t mac[6];
	uint32_t mtu;
	uint32_t payload; /* bytes of payload in the longest packet of the link */
	bool running, loopback;
	/* How many GIDs the device gets for the addresses, as the program's
	 * configuration says: two for each address if it offers RoCE v1, too; one_gid:
	 * no others than GID 0 and GID 1. */
	bool v1, one_gid;
	unsigned naddrs;
	struct {
		uint8_t ip[16];
	} addr[GID_TABLE]; /* IPv4 mapped */
};

/* A device of an interface. */
struct net_device {
	struct device dev; /* dev.lock also guards the fields below */
	bool present;	   /* the interface still exists */
	struct netdev net;
};

struct net_device *net_device_of(struct device *dev);

/* The kinds of device that an interface can have, in the order of lists of devices. */
enum { NETDEV_KINDS = 2 };
extern const struct device_kind *const netdev_kinds[NETDEV_KINDS];

/* Makes a device of a kind for an interface. id NULL: identity_default. Returns 0 or
 * -ENOMEM. */
int device_create(const struct device_kind *kind, const struct netdev *net,
		  const struct identity *id, struct device **out);

/* Applies a change of the interface; net NULL: it is gone. A GID keeps its index while
 * its address stays. GID 0 is the IPv6 link-local address (::1 on loopback; derived
 * from the MAC if there is none), GID 1 the first IPv4 address if any, the others
 * follow from 2; with net->v1 the first GID_V1 also appear as RoCE v1.
 * (mac_gid: only GID 0, which is the MAC followed by zeroes.) Returns the result of
 * device_fill(). */
unsigned device_update(struct device *dev, const struct netdev *net);

/* Is ip an address of dev's interface (or, with datagrams, a multicast group)? */
bool device_has_ip(struct device *dev, const uint8_t ip[16]);

enum ibv_mtu mtu_within(uint32_t payload); /* the largest MTU within payload, at
					    * least 256 */

#endif
