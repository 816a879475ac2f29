/* SPDX-License-Identifier: BSD-2-Clause */
/* mpa.h - MPA's frames (RFC 5044; RFC 6581 for revision 2): the request and
 * reply of a connection's setup, then FPDUs: a length of two bytes, the ULPDU,
 * pad to four bytes, a CRC32C; and markers every 512 bytes of the stream, where
 * they were asked for. */
#ifndef WIRE_MPA_H
#define WIRE_MPA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MPA_HELLO_LEN = 20,    /* of a request or reply without data */
	MPA_ENHANCED_LEN = 4,  /* IRD and ORD, before the private data */
	MPA_PRIVATE_MAX = 512, /* with those (RFC 5044, 7.1.1) */
	MPA_HELLO_MAX = MPA_HELLO_LEN + MPA_PRIVATE_MAX,

	MPA_LEN_LEN = 2,
	MPA_CRC_LEN = 4,
	MPA_ULPDU_MAX = 0xffff,
	MPA_FPDU_MAX = MPA_LEN_LEN + MPA_ULPDU_MAX + 3 + MPA_CRC_LEN,

	MPA_MARKER_LEN = 4,
	MPA_MARKER_EVERY = 512,
	/* The longest FPDU with its markers. */
	MPA_MARKED_MAX =
		MPA_FPDU_MAX +
		(MPA_FPDU_MAX / (MPA_MARKER_EVERY - MPA_MARKER_LEN) + 1) * MPA_MARKER_LEN,
};

/* RFC 5044, 7.1.1; RFC 6581, 8 */
enum mpa_flag {
	MPA_MARKERS = 0x80, /* its sender wants to get markers */
	MPA_CRC = 0x40,
	MPA_REJECT = 0x20,
	MPA_ENHANCED = 0x10, /* S: IRD and ORD are there */
};

/* RFC 6581, 9: ready-to-receive frames */
enum mpa_rtr {
	MPA_RTR_NONE = 0,
	MPA_RTR_SEND = 1, /* zero-length FULPDU */
	MPA_RTR_WRITE = 2,
	MPA_RTR_READ = 4,
};

/* A request or reply as values. */
struct mpa_hello {
	bool reply;
	uint8_t flags, revision;
	/* MPA_ENHANCED: */
	bool peer_to_peer;
	unsigned rtr;	   /* enum mpa_rtr, or-ed */
	uint16_t ird, ord; /* 14 bits each */

	const uint8_t *data; /* private data */
	uint16_t data_len;
};

/* Writes at most MPA_HELLO_MAX bytes; returns how many.  data_len is at most
 * MPA_PRIVATE_MAX, less MPA_ENHANCED_LEN where that is set. */
size_t mpa_hello_build(uint8_t *at, const struct mpa_hello *h);

/* How many bytes the hello at `at` has, as far as its first n tell: at least
 * MPA_HELLO_LEN.  0: it is none, whatever follows (key, length). */
size_t mpa_hello_need(const uint8_t *at, size_t n);

/* A whole one.  0; -EBADMSG: no key, or a length that is not what it says.
 * Points into at.  The revision is not judged. */
int mpa_hello_parse(struct mpa_hello *h, const uint8_t *at, size_t n);

static inline size_t mpa_pad(size_t ulpdu)
{
	return -(MPA_LEN_LEN + ulpdu) & 3;
}

static inline size_t mpa_fpdu_len(size_t ulpdu) /* without markers */
{
	return MPA_LEN_LEN + ulpdu + mpa_pad(ulpdu) + MPA_CRC_LEN;
}

/* The longest ULPDU whose FPDU fits mss bytes (MULPDU: RFC 5044, 4.2). */
size_t mpa_mulpdu(size_t mss, bool markers);

/* CRC32C: start with MPA_CRC_START, end with mpa_crc_put(). */
#define MPA_CRC_START 0xffffffffu
uint32_t mpa_crc(uint32_t crc, const void *p, size_t n);
void mpa_crc_put(uint32_t crc, uint8_t at[MPA_CRC_LEN]);
bool mpa_crc_is(uint32_t crc, const uint8_t at[MPA_CRC_LEN]);

/* n bytes of an FPDU take so many of the stream, where pos bytes were before
 * them; a marker where it begins is its own (RFC 5044, 4.3). */
size_t mpa_marked_len(size_t n, uint32_t pos);
/* Copy src with its markers to dst; returns mpa_marked_len(). */
size_t mpa_mark(uint8_t *dst, const uint8_t *src, size_t n, uint32_t pos);
/* And back: n bytes without markers.  False: a marker does not point to the
 * FPDU's beginning. */
bool mpa_unmark(uint8_t *dst, const uint8_t *src, size_t n, uint32_t pos);

#endif
