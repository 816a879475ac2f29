/* SPDX-License-Identifier: BSD-2-Clause */
/* udp_err.h - what the network answers to datagrams (ICMP): the kernel lays it
 * into the sender's error queue (IP_RECVERR), and lets its next send fail.  For
 * link/udp.c. */
#ifndef LINK_UDP_ERR_H
#define LINK_UDP_ERR_H

#include <stdbool.h>
#include <stdint.h>

/* Hosts where nobody has the port; of more than that the oldest stay. */
enum { REFUSALS_MAX = 16 };

struct udp_refusals {
	unsigned n;
	uint8_t ip[REFUSALS_MAX][16];
};

/* Take in what waits.  True: the last send may have failed because of it, and is
 * worth another try. */
bool udp_err_take(struct udp_refusals *r, int fd);

/* False: none is left. */
bool udp_err_next(struct udp_refusals *r, uint8_t ip[16]);

#endif
