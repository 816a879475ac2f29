/* SPDX-License-Identifier: BSD-2-Clause */
#include "pattern.h"

#include <string.h>

uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* A cheap function by which two words of a buffer, or of two seeds, are unlikely to be
 * the same. */
static uint64_t word(uint64_t seed, size_t i)
{
	return (seed + i) * 0x9e3779b97f4a7c15u ^ seed >> 7;
}

void pattern_fill(void *buf, size_t len, uint64_t seed)
{
	uint8_t *at = buf;
	size_t i = 0;
	uint64_t w;

	for (; len >= sizeof(w); len -= sizeof(w), at += sizeof(w)) {
		w = word(seed, i++);
		memcpy(at, &w, sizeof(w));
	}
	w = word(seed, i);
	memcpy(at, &w, len);
}

size_t pattern_check(const void *buf, size_t len, uint64_t seed)
{
	const uint8_t *start = buf, *at = start;
	size_t left = len, i = 0;
	uint64_t w;

	while (left > 0) {
		size_t n = left < sizeof(w) ? left : sizeof(w);

		w = word(seed, i++);
		if (memcmp(at, &w, n) != 0) {
			const uint8_t *want = (const uint8_t *)&w;

			while (*at == *want)
				at++, want++;
			return (size_t)(at - start);
		}
		at += n;
		left -= n;
	}
	return len;
}
