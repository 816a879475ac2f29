/* SPDX-License-Identifier: BSD-2-Clause */
/* placement.c - see placement.h.
 *
 * The affinity at the process's start is known only then: later, a program that has
 * pinned its main thread looks like one started by taskset. So reading it is the one
 * thing that the library does when it is loaded.
 */
#include "driver/placement.h"

#include <errno.h>
#include <unistd.h>

static cpu_set_t started;
static int unknown = -ENOSYS;

__attribute__((constructor)) static void ask_at_start(void)
{
	/* Of the main thread: another thread may load a plugin. */
	unknown = sched_getaffinity(getpid(), sizeof(started), &started) ? -errno : 0;
}

void placement_less(cpu_set_t *out, const cpu_set_t *all, const cpu_set_t *first,
		    const cpu_set_t *caller)
{
	const cpu_set_t *base = all;
	cpu_set_t both;

	/* The process has moved, perhaps into another cpuset. Where it started no longer
	 * matters; another process may run there. */
	CPU_AND(&both, all, first);
	if (!CPU_EQUAL(&both, first))
		base = first;
	CPU_AND(&both, base, caller);
	CPU_XOR(out, base, &both);
	if (CPU_COUNT(out) == 0)
		*out = *caller;
}

int placement_choose(cpu_set_t *out)
{
	cpu_set_t caller, first;

	if (unknown)
		return unknown;
	if (sched_getaffinity(0, sizeof(caller), &caller) ||
	    sched_getaffinity(getpid(), sizeof(first), &first))
		return -errno;
	placement_less(out, &started, &first, &caller);
	return 0;
}
