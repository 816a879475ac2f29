/* SPDX-License-Identifier: BSD-2-Clause */
/* stats.h - counters of messages between processes of this host. */
#ifndef HOST_STATS_H
#define HOST_STATS_H

#include <stdint.h>

struct host_stats {
	uint64_t forwarded, received;
	uint64_t dropped_full; /* the receiver is slow */
	uint64_t dropped_gone; /* no process has the slot */
	uint64_t refused;      /* garbage, from strangers, or too many */
};

#endif
