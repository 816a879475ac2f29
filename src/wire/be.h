/* SPDX-License-Identifier: BSD-2-Clause */
/* be.h - big-endian integers as they lie in a packet.
 *
 * A beN is bytes, so it has alignment 1, needs no packed attribute, and cannot
 * be added to, compared with or printed as a host integer by mistake: the only
 * way in or out is beN() and get_beN().
 */
#ifndef WIRE_BE_H
#define WIRE_BE_H

#include <stdint.h>

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

static inline uint32_t get_be32(be32_t v)
{
	return (uint32_t)v.b[0] << 24 | (uint32_t)v.b[1] << 16 | (uint32_t)v.b[2] << 8 |
	       v.b[3];
}

static inline uint64_t get_be64(be64_t v)
{
	return (uint64_t)v.b[0] << 56 | (uint64_t)v.b[1] << 48 | (uint64_t)v.b[2] << 40 |
	       (uint64_t)v.b[3] << 32 | (uint64_t)v.b[4] << 24 | (uint64_t)v.b[5] << 16 |
	       (uint64_t)v.b[6] << 8 | v.b[7];
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
	return (be32_t){ { (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
			   (uint8_t)n } };
}

static inline be64_t be64(uint64_t n)
{
	return (be64_t){ { (uint8_t)(n >> 56), (uint8_t)(n >> 48), (uint8_t)(n >> 40),
			   (uint8_t)(n >> 32), (uint8_t)(n >> 24), (uint8_t)(n >> 16),
			   (uint8_t)(n >> 8), (uint8_t)n } };
}

#endif
