/* SPDX-License-Identifier: BSD-2-Clause */
/* mpa.h - MPA's frames (RFC 5044; RFC 6581 for revision 2): the request and reply that
 * set a connection up, then FPDUs.  An FPDU is a length of two bytes, the ULPDU, padding
 * to four bytes and a CRC32C.  If a side asked for markers there is one in every 512
 * bytes of the stream. */
#ifndef WIRE_MPA_H
#define WIRE_MPA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MPA_HELLO_LEN = 20,    /* request or reply without data */
	MPA_ENHANCED_LEN = 4,  /* IRD and ORD, before the private data */
	MPA_PRIVATE_MAX = 512, /* with IRD and ORD (RFC 5044, 7.1.1) */
	MPA_HELLO_MAX = MPA_HELLO_LEN + MPA_PRIVATE_MAX,

	MPA_LEN_LEN = 2,
	MPA_CRC_LEN = 4,
	MPA_ULPDU_MAX = 0xffff,
	MPA_FPDU_MAX = MPA_LEN_LEN + MPA_ULPDU_MAX + 3 + MPA_CRC_LEN,

	MPA_MARKER_LEN = 4,
	MPA_MARKER_EVERY = 512,
	/* The longest FPDU, with its markers. */
	MPA_MARKED_MAX =
		MPA_FPDU_MAX +
		(MPA_FPDU_MAX / (MPA_MARKER_EVERY - MPA_MARKER_LEN) + 1) * MPA_MARKER_LEN,
};

/* RFC 5044, 7.1.1; RFC 6581, 8. */
enum mpa_flag {
	MPA_MARKERS = 0x80, /* the sender wants to receive markers */
	MPA_CRC = 0x40,
	MPA_REJECT = 0x20,
	MPA_ENHANCED = 0x10, /* S: IRD and ORD are present */
};

/* RFC 6581, 9: ready-to-receive frames. */
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
	/* If MPA_ENHANCED is set: */
	bool peer_to_peer;
	unsigned rtr;	   /* enum mpa_rtr, or-ed */
	uint16_t ird, ord; /* 14 bits each */

	const uint8_t *data; /* private data */
	uint16_t data_len;
};

/* Writes at most MPA_HELLO_MAX bytes; returns their number.  data_len is at most
 * MPA_PRIVATE_MAX, less MPA_ENHANCED_LEN if MPA_ENHANCED is set. */
size_t mpa_hello_build(uint8_t *at, const struct mpa_hello *h);

/* The length of the hello at `at`, as far as its first n bytes tell: at least
 * MPA_HELLO_LEN.  0: its key or length is wrong, so it is no hello whatever follows. */
size_t mpa_hello_need(const uint8_t *at, size_t n);

/* Parses a complete hello; *h points into at.  Returns 0; -EBADMSG: wrong key, or a
 * length that n does not match.  The revision is not checked. */
int mpa_hello_parse(struct mpa_hello *h, const uint8_t *at, size_t n);

static inline size_t mpa_pad(size_t ulpdu)
{
	return -(MPA_LEN_LEN + ulpdu) & 3;
}

static inline size_t mpa_fpdu_len(size_t ulpdu) /* without markers */
{
	return MPA_LEN_LEN + ulpdu + mpa_pad(ulpdu) + MPA_CRC_LEN;
}

/* The longest ULPDU whose FPDU fits into mss bytes (MULPDU: RFC 5044, 4.2). */
size_t mpa_mulpdu(size_t mss, bool markers);

/* CRC32C: begin with MPA_CRC_START, end with mpa_crc_put(). */
#define MPA_CRC_START 0xffffffffu
uint32_t mpa_crc(uint32_t crc, const void *p, size_t n);
void mpa_crc_put(uint32_t crc, uint8_t at[MPA_CRC_LEN]);
bool mpa_crc_is(uint32_t crc, const uint8_t at[MPA_CRC_LEN]);

/* The bytes of the stream that n bytes of an FPDU take with their markers, if they begin
 * at position pos of the stream.  A marker at pos itself belongs to the FPDU (RFC 5044,
 * 4.3). */
size_t mpa_marked_len(size_t n, uint32_t pos);
/* Copies src to dst and adds markers; returns mpa_marked_len(). */
size_t mpa_mark(uint8_t *dst, const uint8_t *src, size_t n, uint32_t pos);
/* Copies src to dst without its markers: n bytes in dst.  Returns false if a marker does
 * not point to the beginning of the FPDU. */
bool mpa_unmark(uint8_t *dst, const uint8_t *src, size_t n, uint32_t pos);

#endif
