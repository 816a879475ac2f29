/* SPDX-License-Identifier: BSD-2-Clause */
/* placed.c - see placed.h. */
#include "check/placed.h"

#include "sys/lock.h"

static struct range {
	uint64_t at, len, newest; /* post at the latest write */
} ring[PLACED];

static struct brief_lock lock;
static uint64_t head GUARDED_BY(lock); /* free-running */
static unsigned writers GUARDED_BY(lock);

/* A long WRITE comes in pieces that follow each other: they are one range. */
void placed_add(uint64_t at, uint64_t len, uint64_t newest)
{
	struct range *last;

	if (!len)
		return;
	brief_take(&lock);
	last = &ring[(head - 1) % PLACED];
	/* The caller has read it without the lock. */
	if (head && newest < last->newest)
		newest = last->newest;
	if (head && last->at + last->len == at) {
		last->len += len;
		last->newest = newest;
	} else {
		ring[head++ % PLACED] = (struct range){ at, len, newest };
	}
	brief_give(&lock);
}

void placed_now(bool begins)
{
	brief_take(&lock);
	writers += begins ? 1u : -1u;
	brief_give(&lock);
}

bool placed_since(uint64_t at, uint64_t len, uint64_t number)
{
	uint64_t n = 0;
	bool found = false;

	brief_take(&lock);
	for (; !found && n < head && n < PLACED; n++) {
		const struct range *r = &ring[(head - 1 - n) % PLACED];

		if (r->newest < number)
			break;
		found = at < r->at ? r->at - at < len : at - r->at < r->len;
	}
	found |= n == PLACED || writers;
	brief_give(&lock);
	return found;
}
