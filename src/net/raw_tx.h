/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_tx.h - sends datagrams by a packet socket: many in one system call, a run in one
 * piece (GSO). Decides which ones can go that way. For net/raw.c. */
#ifndef NET_RAW_TX_H
#define NET_RAW_TX_H

#include <stdbool.h>
#include <stdint.h>

#include "net/dgram.h"

struct raw_tx;

/* fd is a packet socket (SOCK_RAW, PACKET_VNET_HDR). Returns 0, and raw_tx_close() will
 * close fd; or -errno. */
int raw_tx_open(struct raw_tx **out, int fd);
void raw_tx_close(struct raw_tx *r);
void raw_tx_forked(struct raw_tx *r);

/* Returns how many of v[0..n-1] belong to the first run. */
unsigned raw_run_length(const struct dgram *v, unsigned n);
unsigned raw_tx_run_max(const struct raw_tx *r);

/* Sends datagrams from the start of v, whose ports are filled in. Returns how many were
 * taken, or -EBADF. On 0 the socket is full or, with *no_way set, the run at v cannot go
 * this way now. A RoCE v1 packet without a known neighbour counts as that; the kernel is
 * then asked to resolve the neighbour. */
int raw_tx_send(struct raw_tx *r, const struct dgram *v, unsigned n, uint64_t now,
		bool *no_way);

#endif
