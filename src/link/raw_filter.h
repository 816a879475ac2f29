/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_filter.h - which packets a process takes from its packet socket.  All others it
 * takes from its UDP socket, whose filter is the same program with the answers exchanged:
 * so each datagram comes in once.  For link/raw.c.
 */
#ifndef LINK_RAW_FILTER_H
#define LINK_RAW_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

enum { RAW_INTERFACES = 64, RAW_FILTER_MAX = 64 + RAW_INTERFACES };

struct raw_wanted {
	uint16_t port;			  /* UDP's, of RoCE v2 */
	uint16_t slot;			  /* of the destination QP */
	unsigned n;			  /* interfaces */
	uint32_t ifindex[RAW_INTERFACES]; /* that packets come in by */
};

/* Classic BPF for a socket: takes unicast datagrams to the port and to QPs of the slot,
 * without IP options and whole, and RoCE v1 to those QPs, that came in by one of the
 * interfaces; `rest`: all but those.  Returns the number of instructions. */
unsigned raw_filter(struct sock_filter f[RAW_FILTER_MAX], const struct raw_wanted *w,
		    bool rest);

#endif
