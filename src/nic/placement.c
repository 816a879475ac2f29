/* SPDX-License-Identifier: BSD-2-Clause */
/* placement.c - see placement.h.
 *
 * What the process was started with can only be known at its start: later one
 * cannot tell a program that has pinned its main thread from one that was started
 * by taskset.  So this is the one thing that the library does when it is loaded;
 * it only asks.
 */
#include "nic/placement.h"

#include <errno.h>
#include <unistd.h>

static cpu_set_t started;
static int unknown = -ENOSYS;

__attribute__((constructor)) static void ask_at_start(void)
{
	/* The main thread's: a plugin may be loaded by another. */
	unknown = sched_getaffinity(getpid(), sizeof(started), &started) ? -errno : 0;
}

void placement_less(cpu_set_t *out, const cpu_set_t *all, const cpu_set_t *first,
		    const cpu_set_t *caller)
{
	const cpu_set_t *base = all;
	cpu_set_t both;

	/* The process has gone elsewhere, or was moved into another cpuset: where it
	 * started is no measure any more, and somebody else's may run there. */
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
