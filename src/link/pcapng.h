/* SPDX-License-Identifier: BSD-2-Clause */
/* pcapng.h - the blocks of a pcapng file, and the packets in them. */
#ifndef LINK_PCAPNG_H
#define LINK_PCAPNG_H

#include <stddef.h>
#include <stdint.h>

#include "link/dgram.h"

enum pcapng_dir { PCAPNG_IN = 1, PCAPNG_OUT = 2 }; /* as in epb_flags */

enum {
	PCAPNG_HEAD_MAX = 128, /* section and interface */
	PCAPNG_V1_MAX = 64,    /* the interface of RoCE v1 */
	PCAPNG_EPB_MORE = 112, /* what a datagram takes besides its len */
};

/* Section header and interface description.  Returns bytes written. */
size_t pcapng_head(uint8_t *at);

/* ... and the interface of packets of RoCE v1, which has to stand before the first of
 * them: Ethernet, with zeroes for MAC addresses, which are not known here. */
size_t pcapng_v1(uint8_t *at);

/* An enhanced packet block, room for d->len + PCAPNG_EPB_MORE bytes.  Returns
 * bytes written; 0 if d cannot be recorded: its payload is not mapped any
 * more, or it is longer than IP allows. */
size_t pcapng_epb(uint8_t *at, const struct dgram *d, enum pcapng_dir dir,
		  uint64_t wall_ns);

#endif
