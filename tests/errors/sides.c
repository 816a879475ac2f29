/* SPDX-License-Identifier: BSD-2-Clause */
/* sides.c - keeps two sides in step, both in this process or each in a process of its
 * own. */
#include <time.h>

#include "../stress/peer.h"
#include "errors.h"

struct sides sides = { .sock = -1 };

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void sides_meet(const char *host, const char *port)
{
	sides.b = port && !host;
	if (port)
		sides.sock = peer_meet(host, port);
}

void sides_open(const char *device, int gid_index)
{
	for (int b = 0; b < 2; b++) {
		sides.side[b].is_b = b;
		if (plays(b))
			side_open(&sides.side[b], device, gid_index);
	}
}

bool in_two(void)
{
	return sides.sock >= 0;
}

bool plays(bool b)
{
	return !in_two() || b == sides.b;
}

struct side *side(bool b)
{
	CHECK(plays(b));
	return &sides.side[b];
}

void each(void (*fn)(struct side *s))
{
	for (int b = 0; b < 2; b++)
		if (plays(b))
			fn(&sides.side[b]);
}

void sync_sides(void)
{
	struct side *s = sides.side;

	if (in_two()) {
		s = &sides.side[sides.b];
		peer_swap(sides.sock, &s->mine, &s->theirs, sizeof(s->mine));
		return;
	}
	s[0].theirs = s[1].mine;
	s[1].theirs = s[0].mine;
}

bool is_wanted(const char *name, char **names)
{
	if (!*names)
		return true;
	for (; *names; names++)
		if (!strcmp(*names, name))
			return true;
	return false;
}
