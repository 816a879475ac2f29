/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_filter.h - selects the packets that a process receives from its packet socket. Its
 * UDP socket has the same filter with the answers exchanged, so each datagram is
 * received once. For net/raw.c. */
#ifndef NET_RAW_FILTER_H
#define NET_RAW_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

enum { RAW_INTERFACES = 64, RAW_FILTER_MAX = 64 + RAW_INTERFACES };

struct raw_wanted {
	uint16_t port;			  /* UDP port of RoCE v2 */
	uint16_t slot;			  /* slot of the destination QP */
	unsigned n;			  /* number of interfaces */
	uint32_t ifindex[RAW_INTERFACES]; /* interfaces that packets come in by */
};

/* Writes a classic BPF program. It accepts unfragmented unicast datagrams without IP
 * options to the port and a QP of the slot, and RoCE v1 packets to such a QP, on one of
 * the interfaces; with `rest`, all others. Returns the number of instructions. */
unsigned raw_filter(struct sock_filter f[RAW_FILTER_MAX], const struct raw_wanted *w,
		    bool rest);

#endif
