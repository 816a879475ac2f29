/* SPDX-License-Identifier: BSD-2-Clause */
/* flush.h - FLUSH (IBTA annex A19): its rights, and what the FETH has. */
#ifndef VERBS_FLUSH_H
#define VERBS_FLUSH_H

#include <stdint.h>

#include "sys/newer.h"

enum {
	ACCESS_FLUSH = IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT,

	/* Placement types (IBV_FLUSH_GLOBAL ...) and selectivity levels (IBV_FLUSH_RANGE
	 * ...), as the FETH has them. */
	FLUSH_KNOWN = IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT,
	FLUSH_TYPES = 0xf,
	FLUSH_LEVELS = 3,
};

#define DEVICE_FLUSH_GLOBAL (1ull << 38) /* IB_UVERBS_DEVICE_FLUSH_GLOBAL */
#define DEVICE_ATOMIC_WRITE (1ull << 40) /* IBV_DEVICE_ATOMIC_WRITE */

/* The FETH: reserved(26) | SEL(2) | PLT(4). */
static inline uint32_t feth_bits(unsigned type, unsigned level)
{
	return (level & FLUSH_LEVELS) << 4 | (type & FLUSH_TYPES);
}

static inline unsigned feth_type(uint32_t feth)
{
	return feth & FLUSH_TYPES;
}

static inline unsigned feth_level(uint32_t feth)
{
	return feth >> 4 & FLUSH_LEVELS;
}

#endif
