/* SPDX-License-Identifier: BSD-2-Clause */
/* pcapng.h - the blocks of a pcapng file, and the packets in them. */
#ifndef NET_PCAPNG_H
#define NET_PCAPNG_H

#include <stddef.h>
#include <stdint.h>

#include "net/dgram.h"

enum pcapng_dir { PCAPNG_IN = 1, PCAPNG_OUT = 2 }; /* values as in epb_flags */

/* Form of a packet; each has its own interface in the file. */
enum pcapng_kind {
	PCAPNG_IP,
	PCAPNG_V1, /* Ethernet with zero MAC addresses, which are not known here */
	PCAPNG_IB, /* ERF, as `urnic fabric pcap' writes it; for links below lid.h */
	PCAPNG_KINDS
};

enum {
	PCAPNG_HEAD_MAX = 128,	   /* section header and interface 0 */
	PCAPNG_INTERFACE_MAX = 64, /* one more interface */
	PCAPNG_EPB_MORE = 124,	   /* bytes of a block besides the datagram's len */
};

/* Writes the section header and the description of interface 0, kind PCAPNG_IP. Returns
 * bytes written. */
size_t pcapng_head(uint8_t *at);

/* Writes the description of one more interface, which must stand before its first
 * packet; the first one gets number 1. Returns bytes written. */
size_t pcapng_interface(uint8_t *at, enum pcapng_kind kind);

/* Writes an enhanced packet block; `at` has room for d->len + PCAPNG_EPB_MORE bytes.
 * Returns bytes written, or 0 if d cannot be recorded: its payload is no longer mapped,
 * or it is longer than IP allows. */
size_t pcapng_epb(uint8_t *at, const struct dgram *d, enum pcapng_kind kind,
		  uint32_t interface, enum pcapng_dir dir, uint64_t wall_ns);

#endif
