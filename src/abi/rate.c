/* SPDX-License-Identifier: BSD-2-Clause */
/* rate.c - converts link rates between enum ibv_rate, multiples of 2.5 Gbit/s, and
 * Mbit/s. */
#include "abi/abi.h"

#include "verbs/rate.h"

#define rate_for(r) for (const struct rate *r = rate_rows(&n), *end = r + n; r < end; r++)

EXPORT int ibv_rate_to_mult(enum ibv_rate rate)
{
	unsigned n;

	rate_for(r) if (r->rate == rate && r->mult) return r->mult;
	return -1;
}

EXPORT enum ibv_rate mult_to_ibv_rate(int mult)
{
	unsigned n;

	rate_for(r) if (r->mult == mult && mult) return r->rate;
	return IBV_RATE_MAX;
}

EXPORT int ibv_rate_to_mbps(enum ibv_rate rate)
{
	unsigned n;

	rate_for(r) if (r->rate == rate) return r->mbps;
	return -1;
}

EXPORT enum ibv_rate mbps_to_ibv_rate(int mbps)
{
	unsigned n;

	rate_for(r) if (r->mbps == mbps) return r->rate;
	return IBV_RATE_MAX;
}
