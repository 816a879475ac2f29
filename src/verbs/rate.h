/* SPDX-License-Identifier: BSD-2-Clause */
/* rate.h - the link rates of verbs, and pacing of packets to a rate. */
#ifndef VERBS_RATE_H
#define VERBS_RATE_H

#include <infiniband/verbs.h>
#include <stdint.h>

struct rate {
	enum ibv_rate rate;
	int mult; /* multiple of 2.5 Gbit/s; 0: not a multiple */
	int mbps;
};

const struct rate *rate_rows(unsigned *n);
/* Mb/s of an enum ibv_rate; 0: unknown rate. */
uint32_t rate_mbps(uint8_t rate);
/* Mb/s of a port with this width and speed (as in ibv_port_attr); 0: unknown. */
uint32_t rate_of_port(uint8_t width, uint8_t speed);

/* A sender that is late by up to this time catches up; more is lost. */
enum { PACE_LATE_NS = 200000 };

/* Returns the time from which the next packet counts as allowed, given that the last
 * one occupies the line until next_at. */
static inline uint64_t pace_from(uint64_t next_at, uint64_t now)
{
	uint64_t late = now > PACE_LATE_NS ? now - PACE_LATE_NS : 0;

	return next_at > late ? next_at : late;
}

/* Time in ns that `bytes` take at kbps. */
static inline uint64_t pace_ns(uint64_t bytes, uint64_t kbps)
{
	return bytes * 8000000 / kbps;
}

#endif
