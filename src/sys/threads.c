/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.c - see threads.h. */
#include "sys/threads.h"

#include <stdatomic.h>

/* How often it has changed, above how many there are. */
static _Atomic uint64_t own;

enum { CHANGES_AT = 32 };

static const uint64_t change = UINT64_C(1) << CHANGES_AT;

void threads_begin(void)
{
	atomic_fetch_add(&own, change + 1);
}

void threads_end(void)
{
	atomic_fetch_add(&own, change - 1);
}

void threads_forked(void)
{
	atomic_store(&own, 0);
}

uint64_t threads_now(void)
{
	return atomic_load(&own);
}

unsigned threads_in(uint64_t now)
{
	return (unsigned)(now & (change - 1));
}

unsigned threads_own(void)
{
	return threads_in(threads_now());
}
