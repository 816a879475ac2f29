/* SPDX-License-Identifier: BSD-2-Clause */
/* psn.h - packet sequence numbers: 24 bits, for every transport (9.7.1). */
#ifndef VERBS_PSN_H
#define VERBS_PSN_H

#include <stdint.h>

enum {
	PSN_MASK = 0xffffff,
	PSN_WINDOW = 1 << 23, /* half of the PSNs: an older PSN is a duplicate */
};

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & PSN_MASK;
}

/* Distance from base forward to a, 0 .. 2^24 - 1. */
static inline uint32_t psn_off(uint32_t a, uint32_t base)
{
	return (a - base) & PSN_MASK;
}

/* Signed difference a - b modulo 2^24, -2^23 .. 2^23 - 1. */
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

#endif
