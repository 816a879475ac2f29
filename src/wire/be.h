/* SPDX-License-Identifier: BSD-2-Clause */
/* be.h - big-endian integers as they lie in a packet.
 *
 * A beN_t is bytes: it has alignment 1, needs no packed attribute, and cannot be added,
 * compared or printed as a host integer by mistake.  Only beN() and get_beN() convert. */
#ifndef WIRE_BE_H
#define WIRE_BE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

typedef struct {
	uint8_t b[2];
} be16_t;
typedef struct {
	uint8_t b[3];
} be24_t;
typedef struct {
	uint8_t b[4];
} be32_t;
typedef struct {
	uint8_t b[8];
} be64_t;

static inline uint16_t get_be16(be16_t v)
{
	return (uint16_t)(v.b[0] << 8 | v.b[1]);
}

static inline uint32_t get_be24(be24_t v)
{
	return (uint32_t)v.b[0] << 16 | (uint32_t)v.b[1] << 8 | v.b[2];
}

/* Through an integer of the same size: compilers make one instruction of that, even where
 * several fields lie side by side. */
static inline uint32_t get_be32(be32_t v)
{
	uint32_t n;

	memcpy(&n, v.b, sizeof(n));
	return be32toh(n);
}

static inline uint64_t get_be64(be64_t v)
{
	uint64_t n;

	memcpy(&n, v.b, sizeof(n));
	return be64toh(n);
}

static inline be16_t be16(uint16_t n)
{
	return (be16_t){ { (uint8_t)(n >> 8), (uint8_t)n } };
}

/* The top byte of n is dropped: QPNs, PSNs and MSNs are taken modulo 2^24. */
static inline be24_t be24(uint32_t n)
{
	return (be24_t){ { (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n } };
}

static inline be32_t be32(uint32_t n)
{
	be32_t v;

	n = htobe32(n);
	memcpy(v.b, &n, sizeof(n));
	return v;
}

static inline be64_t be64(uint64_t n)
{
	be64_t v;

	n = htobe64(n);
	memcpy(v.b, &n, sizeof(n));
	return v;
}

#endif
