/* SPDX-License-Identifier: BSD-2-Clause */
/* rate.h - link rates as verbs names them, and what goes at no more than one. */
#ifndef CORE_RATE_H
#define CORE_RATE_H

#include <infiniband/verbs.h>
#include <stdint.h>

struct rate {
	enum ibv_rate rate;
	int mult; /* of 2.5 Gbit/s; 0: it is none */
	int mbps;
};

const struct rate *rate_rows(unsigned *n);
/* 0: there is no such rate. */
uint32_t rate_mbps(uint8_t rate);
/* Of a port, by width and speed as in ibv_port_attr; 0: they say none. */
uint32_t rate_of_port(uint8_t width, uint8_t speed);

/* What was missed is made up for, up to that. */
enum { PACE_LATE_NS = 200000 };

/* From when on the next may go, of what went last until next_at. */
static inline uint64_t pace_from(uint64_t next_at, uint64_t now)
{
	uint64_t late = now > PACE_LATE_NS ? now - PACE_LATE_NS : 0;

	return next_at > late ? next_at : late;
}

/* How long so many bytes take. */
static inline uint64_t pace_ns(uint64_t bytes, uint64_t kbps)
{
	return bytes * 8000000 / kbps;
}

#endif
