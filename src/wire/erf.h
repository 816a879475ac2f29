/* SPDX-License-Identifier: BSD-2-Clause */
/* erf.h - the record header of Endace's Extensible Record Format, in which captures store
 * InfiniBand packets. */
#ifndef WIRE_ERF_H
#define WIRE_ERF_H

#include <assert.h>
#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "wire/be.h"

enum { ERF_INFINIBAND = 21, ERF_VARYING = 0x04, LINKTYPE_ERF = 197 };

struct erf {
	/* Little-endian: seconds since 1970 in the upper half, 2^-32 s in the lower */
	uint8_t time[8];
	uint8_t type, flags;
	/* Length of the record; records lost before it; length of the packet */
	be16_t rlen, lost, wlen;
};

static_assert(sizeof(struct erf) == 16, "ERF");

/* The header for a packet of len bytes, from LRH to VCRC, that was seen at wall_ns (ns
 * since 1970). */
static inline struct erf erf_head(uint64_t wall_ns, size_t len, uint16_t lost)
{
	struct erf h = {
		.type = ERF_INFINIBAND,
		.flags = ERF_VARYING,
		.rlen = be16((uint16_t)(sizeof(h) + len)),
		.lost = be16(lost),
		.wlen = be16((uint16_t)len),
	};
	uint64_t t = htole64((wall_ns / 1000000000u) << 32 |
			     ((wall_ns % 1000000000u) << 32) / 1000000000u);

	memcpy(h.time, &t, sizeof(h.time));
	return h;
}

/* When the packet was seen, in ns since 1970; up to 1 ns early. */
static inline uint64_t erf_time(const struct erf *h)
{
	uint64_t t;

	memcpy(&t, h->time, sizeof(t));
	t = le64toh(t);
	return (t >> 32) * 1000000000u + ((t & UINT32_MAX) * 1000000000u >> 32);
}

#endif
