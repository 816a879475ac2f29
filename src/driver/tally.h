/* SPDX-License-Identifier: BSD-2-Clause */
/* tally.h - the counters of a device's packets, in all processes of this host.
 *
 * Each process counts in memory of its own that others may read: a file without a name
 * (memfd), which they find among the descriptors of /proc. So a reader asks nobody and
 * waits for nobody, and nothing is left when a process ends: its counts go with it. */
#ifndef DRIVER_TALLY_H
#define DRIVER_TALLY_H

#include <stdint.h>

#include "verbs/counters.h"

struct core;
struct tally;

/* Makes the memory, in which core then counts. NULL: this process's packets are not
 * counted for others. */
struct tally *tally_open(struct core *core);
void tally_close(struct tally *t);

struct tally_sum {
	const char *device;
	uint64_t sum[IB_COUNTERS];
};

/* Adds the counters of these n devices in this network namespace, of all processes whose
 * descriptors this user may see, to their sums. That is a look at all descriptors of all
 * processes: milliseconds. */
void tally_add_up(struct tally_sum *of, unsigned n);

#endif
