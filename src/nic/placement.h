/* SPDX-License-Identifier: BSD-2-Clause */
/* placement.h - on which processors the engine's thread may run.
 *
 * A thread inherits the affinity of the thread that makes it.  A program that
 * polls on a processor of its own (SPDK, DPDK) opens the device from just that
 * thread, which would then share its processor with the engine's.  So the
 * engine's gets the processors that the process was started with, less those
 * that the opening thread has kept for itself, if others are left; wherever else that
 * thread has gone by now. */
#ifndef NIC_PLACEMENT_H
#define NIC_PLACEMENT_H

#include <sched.h>

/* The calling thread's, which is about to make another.  0 or -errno. */
int placement_note(cpu_set_t *caller);

/* Move the calling thread, which that one has made.  -errno: it stays where its maker is
 * (more than CPU_SETSIZE processors; a sandbox). */
int placement_move(const cpu_set_t *caller);

/* all: those that the process was started with; allowed: those that its cpuset has now;
 * caller: the opening thread's. */
void placement_less(cpu_set_t *out, const cpu_set_t *all, const cpu_set_t *allowed,
		    const cpu_set_t *caller);

#endif
