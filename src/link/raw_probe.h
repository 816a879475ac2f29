/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_probe.h - has the kernel look for a neighbour, for packets that it does not send
 * itself: an empty datagram goes to its discard port (RFC 863), by no router.  For
 * link/raw_tx.c. */
#ifndef LINK_RAW_PROBE_H
#define LINK_RAW_PROBE_H

struct ip_addr;

struct raw_probe {
	int fd[2]; /* of IPv4, IPv6; -1: not opened yet */
};

void raw_probe_init(struct raw_probe *p);
void raw_probe_send(struct raw_probe *p, const struct ip_addr *a);
void raw_probe_close(struct raw_probe *p);

#endif
