/* SPDX-License-Identifier: BSD-2-Clause */
/* bits.c - bit fields of MADs; see bits.h. */
#include "wire/bits.h"

uint64_t bits_get(const uint8_t *data, unsigned bit, unsigned bits)
{
	const uint8_t *at = data + bit / 8;
	unsigned end = bit % 8 + bits;
	uint64_t v = 0;

	for (; end > 8; end -= 8)
		v = v << 8 | *at++;
	v = v << end | (uint64_t)(*at >> (8 - end));
	return bits < 64 ? v & ((1ull << bits) - 1) : v;
}

void bits_put(uint8_t *data, unsigned bit, unsigned bits, uint64_t v)
{
	uint8_t *at = data + (bit + bits - 1) / 8;
	unsigned low = 7 - (bit + bits - 1) % 8;

	if (bits < 64)
		v &= (1ull << bits) - 1;
	*at = (uint8_t)(*at | v << low);
	v >>= 8 - low;
	for (unsigned left = bits + low; left > 8; left -= 8) {
		at--;
		*at = (uint8_t)(*at | v);
		v >>= 8;
	}
}

uint64_t member_get(const void *m, unsigned size)
{
	switch (size) {
	case 1:
		return *(const uint8_t *)m;
	case 2:
		return *(const uint16_t *)m;
	case 4:
		return *(const uint32_t *)m;
	default:
		return *(const uint64_t *)m;
	}
}

void member_set(void *m, unsigned size, uint64_t v)
{
	switch (size) {
	case 1:
		*(uint8_t *)m = (uint8_t)v;
		break;
	case 2:
		*(uint16_t *)m = (uint16_t)v;
		break;
	case 4:
		*(uint32_t *)m = (uint32_t)v;
		break;
	default:
		*(uint64_t *)m = v;
		break;
	}
}
