/* SPDX-License-Identifier: BSD-2-Clause */
/* rss.h - receive side scaling: chooses a queue for a frame by a hash of its addresses
 * and ports. Pure functions: no lock, no memory, no system call. */
#ifndef RAW_RSS_H
#define RAW_RSS_H

#include <stdint.h>

#include "verbs/limits.h"

struct flow_frame;

struct rss {
	uint64_t fields; /* IBV_RX_HASH_... */
	uint8_t key[RSS_KEY];
};

/* The Toeplitz hash of NDIS and of adapters, over n bytes, n <= RSS_KEY - 4. */
uint32_t rss_toeplitz(const uint8_t key[RSS_KEY], const uint8_t *at, unsigned n);
/* Hashes those of rss->fields that the frame has; 0: it has none. */
uint32_t rss_hash(const struct rss *rss, const struct flow_frame *frame);

#endif
