/* SPDX-License-Identifier: BSD-2-Clause */
/* pcapng.h - the blocks of a pcapng file, and the packets in them. */
#ifndef LINK_PCAPNG_H
#define LINK_PCAPNG_H

#include <stddef.h>
#include <stdint.h>

#include "link/dgram.h"

enum pcapng_dir { PCAPNG_IN = 1, PCAPNG_OUT = 2 }; /* as in epb_flags */

/* What a packet is, and so its interface in the file. */
enum pcapng_kind {
	PCAPNG_IP,
	PCAPNG_V1, /* Ethernet, with zeroes for MAC addresses, which are not known here */
	PCAPNG_IB, /* ERF, as `urnic fabric pcap' writes it; of a lid.h link */
	PCAPNG_KINDS
};

enum {
	PCAPNG_HEAD_MAX = 128,	   /* section and interface */
	PCAPNG_INTERFACE_MAX = 64, /* another interface */
	PCAPNG_EPB_MORE = 124,	   /* what a datagram takes besides its len */
};

/* Section header and the description of interface 0, which is of PCAPNG_IP.  Returns
 * bytes written. */
size_t pcapng_head(uint8_t *at);

/* ... and of another one, which has to stand before its first packet and is counted from
 * 1 on. */
size_t pcapng_interface(uint8_t *at, enum pcapng_kind kind);

/* An enhanced packet block, room for d->len + PCAPNG_EPB_MORE bytes.  Returns
 * bytes written; 0 if d cannot be recorded: its payload is not mapped any
 * more, or it is longer than IP allows. */
size_t pcapng_epb(uint8_t *at, const struct dgram *d, enum pcapng_kind kind,
		  uint32_t interface, enum pcapng_dir dir, uint64_t wall_ns);

#endif
