/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_tx.h - datagrams into a packet socket, many in one system call, runs of them in one
 * piece (GSO); and which of them can go that way.  For link/raw.c. */
#ifndef LINK_RAW_TX_H
#define LINK_RAW_TX_H

#include <stdbool.h>
#include <stdint.h>

#include "link/dgram.h"

struct raw_tx;

/* fd: a packet socket (SOCK_RAW, PACKET_VNET_HDR), which it closes with itself once this
 * has returned 0; else -errno. */
int raw_tx_open(struct raw_tx **out, int fd);
void raw_tx_close(struct raw_tx *r);
void raw_tx_forked(struct raw_tx *r);

/* How many of v[0..n-1] are one run. */
unsigned raw_run_length(const struct dgram *v, unsigned n);
unsigned raw_tx_run_max(const struct raw_tx *r);

/* Datagrams from the start of v, whose ports are filled in.  Returns how many were taken,
 * or -EBADF; 0: the socket is full, or *no_way: the run at v cannot go this way, or not
 * yet, as RoCE v1, which the kernel does not send, and for which it is asked to resolve
 * the neighbour. */
int raw_tx_send(struct raw_tx *r, const struct dgram *v, unsigned n, uint64_t now,
		bool *no_way);

#endif
