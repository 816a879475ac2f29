/* SPDX-License-Identifier: BSD-2-Clause */
/* adapter_ring.h - the memory that a program at an adapter shares with its fabric: a pool
 * of buffers for packets each way, and rings of descriptors.
 *
 * The fabric makes it, sealed, so that neither end can make it shorter.  Neither end
 * believes the other: a counter that has gone too far, or a buffer that the other does
 * not have, ends the connection.  Counters count up for ever and wrap; each is written
 * by one end.
 *
 * To the fabric: the program fills a free buffer and puts a descriptor into tx; the
 * fabric reads it once, and gives the buffer's number back by `freed` when the packet has
 * left it.  From the fabric: it copies a packet into the buffer of the same place in the
 * ring as its descriptor, and the program counts rx_tail up when it has done with it.
 */
#ifndef LINK_ADAPTER_RING_H
#define LINK_ADAPTER_RING_H

#include <stdatomic.h>

#include "link/lid_addr.h"

enum { ADAPTER_BUFS = 256, ADAPTER_BUF = 4224 /* bytes, from the BTH to the ICRC */ };

struct adapter_desc {
	struct link_addr addr; /* struct lid_addr */
	uint16_t len, buf;     /* buf: of tx alone */
};

/* In desc.buf: the cable has spoilt it (link/fault.h), and its other end drops it. */
enum { ADAPTER_BAD = 0x8000 };

static_assert(sizeof(struct adapter_desc) == 48, "the same at both ends");

struct adapter_shared {
	/* The program's: */
	_Alignas(64) _Atomic uint32_t tx_head;
	_Atomic uint32_t freed_tail, rx_tail;
	_Atomic uint32_t program_sleeps; /* what comes is to be told over the socket:
					  * who kicks, clears */
	/* The fabric's: */
	_Alignas(64) _Atomic uint32_t rx_head;
	_Atomic uint32_t freed_head;
	_Atomic uint32_t
		fabric_sleeps;	       /* .. and the other way round: who kicks, clears */
	_Atomic uint32_t fabric_waits; /* for room in rx: likewise */

	_Alignas(64) struct adapter_desc tx[ADAPTER_BUFS];
	struct adapter_desc rx[ADAPTER_BUFS];
	uint16_t freed[ADAPTER_BUFS];
	uint8_t tx_buf[ADAPTER_BUFS][ADAPTER_BUF];
	uint8_t rx_buf[ADAPTER_BUFS][ADAPTER_BUF];
};

#endif
