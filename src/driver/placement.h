/* SPDX-License-Identifier: BSD-2-Clause */
/* placement.h - selects the processors on which the engine's thread may run.
 *
 * A thread inherits the affinity of the thread that creates it. A program that polls on
 * a processor of its own (SPDK, DPDK) opens the device from just that thread, which
 * would then share its processor with the engine's thread.
 *
 * So the engine's thread gets the processors that the process started with, less those
 * of the opening thread, if any are left; and if the first thread has moved away from
 * the original set, those of the first thread.
 */
#ifndef DRIVER_PLACEMENT_H
#define DRIVER_PLACEMENT_H

#include <sched.h>

/* Chooses for a thread that the calling thread is about to create. Returns 0 or -errno:
 * the set is unknown (more than CPU_SETSIZE processors). */
int placement_choose(cpu_set_t *out);

/* all: processors at the start of the process; first: of its first thread, now; caller:
 * of the opening thread. */
void placement_less(cpu_set_t *out, const cpu_set_t *all, const cpu_set_t *first,
		    const cpu_set_t *caller);

#endif
