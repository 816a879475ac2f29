/* SPDX-License-Identifier: BSD-2-Clause */
/* placement.h - on which processors the engine's thread may run.
 *
 * A thread inherits the affinity of the thread that makes it.  A program that
 * polls on a processor of its own (SPDK, DPDK) opens the device from just that
 * thread, which would then share its processor with the engine's.  So the
 * engine's gets the processors that the process was started with, less those
 * that the opening thread has kept for itself, if others are left; and where the
 * first thread has left them, those of the first thread. */
#ifndef NIC_PLACEMENT_H
#define NIC_PLACEMENT_H

#include <sched.h>

/* For a thread that the calling thread is about to make.  -errno: it is not known
 * (more than CPU_SETSIZE processors). */
int placement_choose(cpu_set_t *out);

/* all: the process's, when it started; first: its first thread's, now; caller: the
 * opening thread's. */
void placement_less(cpu_set_t *out, const cpu_set_t *all, const cpu_set_t *first,
		    const cpu_set_t *caller);

#endif
