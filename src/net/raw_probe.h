/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_probe.h - makes the kernel resolve a neighbour for packets that the kernel does
 * not send itself: sends an empty datagram to the neighbour's discard port (RFC 863),
 * bypassing routers. For net/raw_tx.c. */
#ifndef NET_RAW_PROBE_H
#define NET_RAW_PROBE_H

struct ip_addr;

struct raw_probe {
	int fd[2]; /* IPv4, IPv6; -1: not opened yet */
};

void raw_probe_init(struct raw_probe *p);
void raw_probe_send(struct raw_probe *p, const struct ip_addr *a);
void raw_probe_close(struct raw_probe *p);

#endif
