/* SPDX-License-Identifier: BSD-2-Clause */
/* bits.h - fields of MADs, which begin at any bit, and the members of structs that
 * hold them.  Bit 0 is the highest of the first byte, as the specification counts. */
#ifndef WIRE_BITS_H
#define WIRE_BITS_H

#include <stdint.h>

/* n bits at data's bit `bit`, 1 to 64; bit % 8 + n <= 64.  To put is to add to zeroes. */
uint64_t bits_get(const uint8_t *data, unsigned bit, unsigned n);
void bits_put(uint8_t *data, unsigned bit, unsigned n, uint64_t v);

/* A member of 1, 2, 4 or 8 bytes, in the machine's byte order. */
uint64_t member_get(const void *m, unsigned size);
void member_set(void *m, unsigned size, uint64_t v);

#endif
