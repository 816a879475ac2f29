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
	PCAPNG_IB, /* ERF (wire/erf.h); for links below lid.h */
	PCAPNG_KINDS
};

enum {
	PCAPNG_TEXT_MAX = 160,	    /* bytes of a text; more are cut off */
	PCAPNG_SECTION_MAX = 64,    /* section header */
	PCAPNG_INTERFACE_MAX = 232, /* an interface's description */
	PCAPNG_STATS_MAX = 220,	    /* an interface's counts */
	PCAPNG_EPB_MORE = 288,	    /* bytes of a block besides the datagram's len */
};

/* Each of these returns how many bytes it has written. */

/* Writes the section header, which begins a file. */
size_t pcapng_section(uint8_t *at);

/* Writes the description of the next interface, which must stand before its first packet;
 * the first one gets number 0. `of` says more about it; NULL: nothing. */
size_t pcapng_interface(uint8_t *at, enum pcapng_kind kind, const char *of);

/* Writes an enhanced packet block; `at` has room for d->len + PCAPNG_EPB_MORE bytes.
 * `note` is the packet's comment; NULL: none. Returns 0 if d cannot be recorded: its
 * payload is no longer mapped, or it is longer than IP allows. */
size_t pcapng_epb(uint8_t *at, const struct dgram *d, enum pcapng_kind kind,
		  uint32_t interface, enum pcapng_dir dir, uint64_t wall_ns,
		  const char *note);

/* The same for a packet that is there as the file has it; `at` has room for len +
 * PCAPNG_EPB_MORE bytes. */
size_t pcapng_record(uint8_t *at, const void *bytes, size_t len, uint32_t interface,
		     uint64_t wall_ns);

/* Writes how many packets an interface had so far, and how many of them could not be
 * recorded; `note` is a comment. */
size_t pcapng_stats(uint8_t *at, uint32_t interface, uint64_t wall_ns, uint64_t received,
		    uint64_t dropped, const char *note);

/* --- reading -------------------------------------------------------------------------
 */

enum {
	PCAPNG_SECTION = 0x0a0d0d0a,
	PCAPNG_INTERFACE = 1,
	PCAPNG_STATS = 5,
	PCAPNG_PACKET = 6
};

/* Looks at the block that begins at `at`, of which len bytes are there, this host's byte
 * order. Sets *type. Returns its length; 0: not all of it is there; -EPROTO: it is longer
 * than `most`, or malformed. A block that has an interface's number (packets, counts)
 * holds it. */
long pcapng_block(const uint8_t *at, size_t len, size_t most, uint32_t *type);

/* The interface's number of a block of PCAPNG_PACKET or PCAPNG_STATS. */
uint32_t pcapng_interface_of(const uint8_t *block);
void pcapng_set_interface(uint8_t *block, uint32_t interface);

/* Copies the comment of a block of PCAPNG_STATS; "": it has none. */
void pcapng_stats_note(const uint8_t *block, char note[PCAPNG_TEXT_MAX + 1]);

#endif
