/* SPDX-License-Identifier: BSD-2-Clause */
/* stats.h - what happened to what the processes of a host say to each other. */
#ifndef HOST_STATS_H
#define HOST_STATS_H

#include <stdint.h>

struct host_stats {
	uint64_t forwarded, received;
	uint64_t dropped_full; /* the other side is slow */
	uint64_t dropped_gone; /* no such slot */
	uint64_t refused;      /* garbage, strangers, too many */
};

#endif
