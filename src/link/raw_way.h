/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_way.h - by which interface, and to which MAC address, a packet leaves: what the
 * kernel's routes and neighbour table say, by netlink.  For link/raw.c.
 */
#ifndef LINK_RAW_WAY_H
#define LINK_RAW_WAY_H

#include <stdbool.h>
#include <stdint.h>

struct ip_addr;

enum { RAW_MAC = 6 };

struct raw_way {
	uint32_t ifindex;
	uint8_t mac[RAW_MAC], our_mac[RAW_MAC];
	/* What the kernel sends meanwhile makes it ask the neighbour again. */
	bool stale;
};

/* A socket to ask by; -errno. */
int raw_way_open(void);

/* Up to three questions, which the kernel answers at once.  False: it is the kernel that
 * has to send there, as the MAC address is not known yet, or the destination is one of
 * this host's, a group, behind a tunnel no Ethernet's or not there at all. */
bool raw_way_find(int fd, const struct ip_addr *a, struct raw_way *out);

#endif
