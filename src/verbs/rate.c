/* SPDX-License-Identifier: BSD-2-Clause */
/* rate.c - see rate.h. */
#include "verbs/rate.h"

#include <stddef.h>

/* clang-format off */
static const struct rate rows[] = {
	{ IBV_RATE_2_5_GBPS,	1,	2500 },
	{ IBV_RATE_5_GBPS,	2,	5000 },
	{ IBV_RATE_10_GBPS,	4,	10000 },
	{ IBV_RATE_14_GBPS,	0,	14062 },
	{ IBV_RATE_20_GBPS,	8,	20000 },
	{ IBV_RATE_25_GBPS,	0,	25781 },
	{ IBV_RATE_28_GBPS,	11,	28125 },
	{ IBV_RATE_30_GBPS,	12,	30000 },
	{ IBV_RATE_40_GBPS,	16,	40000 },
	{ IBV_RATE_50_GBPS,	20,	53125 },
	{ IBV_RATE_56_GBPS,	0,	56250 },
	{ IBV_RATE_60_GBPS,	24,	60000 },
	{ IBV_RATE_80_GBPS,	32,	80000 },
	{ IBV_RATE_100_GBPS,	0,	103125 },
	{ IBV_RATE_112_GBPS,	0,	112500 },
	{ IBV_RATE_120_GBPS,	48,	120000 },
	{ IBV_RATE_168_GBPS,	0,	168750 },
	{ IBV_RATE_200_GBPS,	0,	206250 },
	{ IBV_RATE_300_GBPS,	0,	309375 },
	{ IBV_RATE_400_GBPS,	160,	425000 },
	{ IBV_RATE_600_GBPS,	240,	637500 },
	{ IBV_RATE_800_GBPS,	320,	850000 },
	{ IBV_RATE_1200_GBPS,	480,	1275000 },
};
/* clang-format on */

const struct rate *rate_rows(unsigned *n)
{
	*n = sizeof(rows) / sizeof(rows[0]);
	return rows;
}

uint32_t rate_mbps(uint8_t rate)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].rate == rate)
			return (uint32_t)rows[i].mbps;
	return 0;
}

/* The number of lanes per width, and the data rate per lane in Mb/s per speed, without
 * line coding. */
uint32_t rate_of_port(uint8_t width, uint8_t speed)
{
	static const uint8_t lanes[] = { [1] = 1, [2] = 4, [4] = 8, [8] = 12, [16] = 2 };
	static const struct {
		uint8_t speed;
		uint32_t mbps;
	} lane[] = {
		{ 1, 2500 },   { 2, 5000 },   { 4, 10000 },  { 8, 10000 },
		{ 16, 14000 }, { 32, 25000 }, { 64, 50000 }, { 128, 100000 },
	};

	for (size_t i = 0; i < sizeof(lane) / sizeof(lane[0]) && width < sizeof(lanes);
	     i++)
		if (lane[i].speed == speed)
			return lane[i].mbps * lanes[width];
	return 0;
}
