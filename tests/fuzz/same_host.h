/* SPDX-License-Identifier: BSD-2-Clause */
/* same_host.h - two new processes for each input.
 *
 * Most of the time that it takes to make a NIC goes into its tables.  So the NICs stay,
 * and only what a process has on its host is made anew: slot, connections, pipes, export
 * table.  From time to time the NICs are made anew, too, and then LeakSanitizer looks. */
#ifndef FUZZ_SAME_HOST_H
#define FUZZ_SAME_HOST_H

#include "ib/sim.h"

enum { INPUTS_OF_A_NIC = 256 };

static struct sim *kept;
static unsigned inputs;

/* Makes the NICs if there are none, or if they are old. */
static inline void have_nics(const struct sim_conf *conf)
{
	if (kept && ++inputs % INPUTS_OF_A_NIC)
		return;
	if (kept)
		sim_close(kept);
	kept = sim_open(conf);
	sim_leave(kept, SIM_A);
	sim_leave(kept, SIM_B);
}

static inline struct sim *enter_host(const struct sim_conf *conf)
{
	sim_enter(kept, conf);
	return kept;
}

static inline void leave_host(struct sim *s)
{
	sim_leave(s, SIM_A);
	sim_leave(s, SIM_B);
}

#endif
