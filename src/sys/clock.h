/* SPDX-License-Identifier: BSD-2-Clause */
/* clock.h - reads the time.  Not for wire/, ib/ and iwarp/, which get it as a
 * parameter. */
#ifndef SYS_CLOCK_H
#define SYS_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NEVER UINT64_MAX /* a deadline that never comes */

static inline uint64_t clock_read(clockid_t id) /* nanoseconds */
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_ns(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

#endif
