/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.c - see threads.h. */
#include "sys/threads.h"

#include <stdatomic.h>

static _Atomic unsigned own;

void threads_begin(void)
{
	atomic_fetch_add(&own, 1);
}

void threads_end(void)
{
	atomic_fetch_sub(&own, 1);
}

void threads_forked(void)
{
	atomic_store(&own, 0);
}

unsigned threads_own(void)
{
	return atomic_load(&own);
}
