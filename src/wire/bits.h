/* SPDX-License-Identifier: BSD-2-Clause */
/* bits.h - reads and writes fields of MADs, which begin at any bit, and struct members of
 * any size.  Bit 0 is the highest bit of the first byte, as in the specification. */
#ifndef WIRE_BITS_H
#define WIRE_BITS_H

#include <stdint.h>

/* The field of n bits (1 to 64) at bit `bit` of data; bit % 8 + n <= 64.  bits_put() ORs
 * v in, so the field must be zero before. */
uint64_t bits_get(const uint8_t *data, unsigned bit, unsigned n);
void bits_put(uint8_t *data, unsigned bit, unsigned n, uint64_t v);

/* A struct member of 1, 2, 4 or 8 bytes, in host byte order. */
uint64_t member_get(const void *m, unsigned size);
void member_set(void *m, unsigned size, uint64_t v);

#endif
