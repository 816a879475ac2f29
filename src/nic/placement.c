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
#include <string.h>
#include <unistd.h>

static cpu_set_t started;
static int unknown = -ENOSYS;

__attribute__((constructor)) static void ask_at_start(void)
{
	/* The main thread's: a plugin may be loaded by another. */
	unknown = sched_getaffinity(getpid(), sizeof(started), &started) ? -errno : 0;
}

void placement_less(cpu_set_t *out, const cpu_set_t *all, const cpu_set_t *allowed,
		    const cpu_set_t *caller)
{
	cpu_set_t base, both;

	CPU_AND(&base, all, allowed);
	/* It was moved, into another cpuset: where it started is no measure any more. */
	if (CPU_COUNT(&base) == 0)
		base = *allowed;
	CPU_AND(&both, &base, caller);
	CPU_XOR(out, &base, &both);
	if (CPU_COUNT(out) == 0)
		*out = *caller;
}

int placement_note(cpu_set_t *caller)
{
	return sched_getaffinity(0, sizeof(*caller), caller) ? -errno : 0;
}

int placement_move(const cpu_set_t *caller)
{
	cpu_set_t allowed, out;

	if (unknown)
		return unknown;
	/* The kernel takes of these what the process's cpuset has. */
	memset(&allowed, 0xff, sizeof(allowed));
	if (sched_setaffinity(0, sizeof(allowed), &allowed))
		return -errno;
	if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
		placement_less(&out, &started, &allowed, caller);
		if (sched_setaffinity(0, sizeof(out), &out) == 0)
			return 0;
	}
	(void)sched_setaffinity(0, sizeof(*caller), caller);
	return -EINVAL;
}
