/* SPDX-License-Identifier: BSD-2-Clause */
/* adapter_ring.h - the memory that a program at an adapter shares with its fabric: a
 * pool of packet buffers and a ring of descriptors for each direction.
 *
 * The fabric makes and seals the memory, so neither end can shrink it. Neither end
 * trusts the other: a counter out of range, or a buffer number that the other end does
 * not hold, ends the connection. Counters run freely and wrap; each has one writer.
 *
 * Program to fabric: the program fills a free buffer and puts a descriptor into tx. The
 * fabric reads the descriptor once and, when the packet has left the buffer, returns the
 * buffer's number in `freed`.
 *
 * Fabric to program: the fabric copies a packet into the rx buffer whose index equals
 * the descriptor's; the program advances rx_tail when it no longer needs the packet.
 */
#ifndef NET_ADAPTER_RING_H
#define NET_ADAPTER_RING_H

#include <stdatomic.h>

#include "net/lid_addr.h"

enum { ADAPTER_BUFS = 256, ADAPTER_BUF = 4224 /* bytes, from the BTH to the ICRC */ };

struct adapter_desc {
	struct link_addr addr; /* holds a struct lid_addr */
	uint16_t len, buf;     /* buf: used in tx only */
};

/* Flag in adapter_desc.buf: the packet was corrupted on the cable (net/fault.h), so the
 * far end drops it. */
enum { ADAPTER_BAD = 0x8000 };

static_assert(sizeof(struct adapter_desc) == 48, "the same at both ends");

struct adapter_shared {
	/* Written by the program: */
	_Alignas(64) _Atomic uint32_t tx_head;
	_Atomic uint32_t freed_tail, rx_tail;
	/* set: the fabric announces packets over the socket; the fabric clears it when
	 * it kicks */
	_Atomic uint32_t program_sleeps;
	/* Written by the fabric: */
	_Alignas(64) _Atomic uint32_t rx_head;
	_Atomic uint32_t freed_head;
	/* set: the program kicks after a send and clears it */
	_Atomic uint32_t fabric_sleeps;
	/* set: rx is full, so the program kicks after it advances rx_tail */
	_Atomic uint32_t fabric_waits;

	_Alignas(64) struct adapter_desc tx[ADAPTER_BUFS];
	struct adapter_desc rx[ADAPTER_BUFS];
	uint16_t freed[ADAPTER_BUFS];
	uint8_t tx_buf[ADAPTER_BUFS][ADAPTER_BUF];
	uint8_t rx_buf[ADAPTER_BUFS][ADAPTER_BUF];
};

#endif
