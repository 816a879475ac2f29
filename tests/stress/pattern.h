/* SPDX-License-Identifier: BSD-2-Clause */
/* pattern.h - fills memory with bytes that follow from a seed, and checks it. */
#ifndef STRESS_PATTERN_H
#define STRESS_PATTERN_H

#include <stddef.h>
#include <stdint.h>

uint64_t mix(uint64_t x); /* a good 64-bit hash; a PRNG by counting */
void pattern_fill(void *buf, size_t len, uint64_t seed);

/* Returns the offset of the first wrong byte, or len. */
size_t pattern_check(const void *buf, size_t len, uint64_t seed);

#endif
