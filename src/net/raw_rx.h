/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_rx.h - receives datagrams from a packet socket: many in one system call, merged
 * ones (GRO) split again. For net/raw.c. */
#ifndef NET_RAW_RX_H
#define NET_RAW_RX_H

#include <stdbool.h>
#include <stdint.h>

#include "net/dgram.h"

struct raw_rx;

struct raw_rx *raw_rx_new(uint16_t port); /* NULL: no memory */
void raw_rx_free(struct raw_rx *r);

/* Reads what waits in the socket, reusing the buffers of datagrams given out before.
 * Returns 0, also if nothing waits; -EBADF. */
int raw_rx_fill(struct raw_rx *r, int fd);

/* Gives out the next datagrams, at most n, valid until raw_rx_fill(). */
unsigned raw_rx_give(struct raw_rx *r, struct dgram *v, unsigned n);
bool raw_rx_left(const struct raw_rx *r); /* are there more to give out? */

#endif
