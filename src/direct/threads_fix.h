/* SPDX-License-Identifier: BSD-2-Clause */
/* threads_fix.h - for unit tests: counts all threads but the calling one as urnic's
 * own. */
#ifndef DIRECT_THREADS_FIX_H
#define DIRECT_THREADS_FIX_H

#include <sched.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "sys/threads.h"

static inline unsigned all_threads(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned threads = 1;
	char line[128];

	while (fgets(line, sizeof(line), f))
		sscanf(line, "Threads: %u", &threads);
	fclose(f);
	return threads;
}

/* Counts a sanitizer's threads too. */
static inline void count_threads(void)
{
	unsigned threads = all_threads();

	while (threads_own() + 1 < threads)
		threads_begin();
	while (threads_own() + 1 > threads)
		threads_end();
}

/* The kernel lists a thread for a moment after pthread_join() has returned. */
static inline void wait_unlisted(pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d", tid);
	while (!access(path, F_OK))
		sched_yield();
}

#endif
