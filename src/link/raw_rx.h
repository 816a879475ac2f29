/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_rx.h - datagrams out of a packet socket: many in one system call, merged ones cut
 * into what they were.  For link/raw.c. */
#ifndef LINK_RAW_RX_H
#define LINK_RAW_RX_H

#include <stdbool.h>
#include <stdint.h>

#include "link/dgram.h"

struct raw_rx;

struct raw_rx *raw_rx_new(uint16_t port); /* NULL: no memory */
void raw_rx_free(struct raw_rx *r);

/* Take in what waits in the socket; the buffers of what was given are used again.  0,
 * also when nothing waits; -EBADF. */
int raw_rx_fill(struct raw_rx *r, int fd);

/* The next datagrams, at most n, valid until raw_rx_fill(). */
unsigned raw_rx_give(struct raw_rx *r, struct dgram *v, unsigned n);
bool raw_rx_left(const struct raw_rx *r); /* there are more */
uint64_t raw_rx_dropped(const struct raw_rx *r);

#endif
