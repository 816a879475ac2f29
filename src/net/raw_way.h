/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_way.h - finds the interface and the MAC address for a packet in the kernel's
 * routes and neighbour table, by netlink. For net/raw.c. */
#ifndef NET_RAW_WAY_H
#define NET_RAW_WAY_H

#include <stdbool.h>
#include <stdint.h>

struct ip_addr;

enum { RAW_MAC = 6 };

struct raw_way {
	uint32_t ifindex;
	uint8_t mac[RAW_MAC], our_mac[RAW_MAC];
	/* The entry is stale: a packet that the kernel sends makes it probe the
	 * neighbour again. */
	bool stale;
};

/* Opens a netlink socket for queries. Returns it, or -errno. */
int raw_way_open(void);

/* Asks the kernel up to three questions, which it answers at once. Returns false if the
 * kernel has to send the packet: the MAC address is not known yet, or the destination is
 * on this host, a group, behind an interface other than Ethernet, or unreachable. */
bool raw_way_find(int fd, const struct ip_addr *a, struct raw_way *out);

#endif
