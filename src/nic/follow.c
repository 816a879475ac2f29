/* SPDX-License-Identifier: BSD-2-Clause */
/* follow.c - see follow.h. */
#include "nic/follow.h"

#include <errno.h>
#include <sched.h>
#include <sys/socket.h>

#include "sys/log.h"

enum { EVERY_MIN = 32, EVERY_MAX = 8192, PROOF = 3 };

/* It may run on the others still, but does not go there by itself.  False: it may
 * not any more. */
static bool move_to(int cpu)
{
	cpu_set_t may, one;

	if (cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof(may), &may) ||
	    !CPU_ISSET((size_t)cpu, &may))
		return true;
	CPU_ZERO(&one);
	CPU_SET((size_t)cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one) ||
	    !sched_setaffinity(0, sizeof(may), &may))
		return true;
	log_warn("the engine's thread stays on processor %d, which it was to visit: "
		 "errno %d",
		 cpu, errno);
	return false;
}

void follow(struct follow *f, int fd)
{
	int cpu = -1;
	socklen_t len = sizeof(cpu);

	if (f->every == 0)
		f->every = EVERY_MIN;
	if (++f->wakes < f->every || f->off)
		return;
	f->wakes = 0;
	if (getsockopt(fd, SOL_SOCKET, SO_INCOMING_CPU, &cpu, &len) || cpu < 0)
		return;
	if (cpu == sched_getcpu()) {
		f->away = 0;
		if (f->every > EVERY_MIN)
			f->every /= 2;
		return;
	}
	if (++f->away < PROOF)
		return;
	f->away = 0;
	/* They may come from everywhere in turn. */
	if (f->every < EVERY_MAX)
		f->every *= 2;
	f->off = !move_to(cpu);
}
