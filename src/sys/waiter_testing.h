/* SPDX-License-Identifier: BSD-2-Clause */
/* waiter_testing.h - for unit tests: a thread whose call is expected to wait.  The test
 * learns from /proc that the thread sleeps, so it need not guess how long that takes. */
#ifndef SYS_WAITER_TESTING_H
#define SYS_WAITER_TESTING_H

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct waiter {
	pthread_t thread;
	void *(*fn)(void *);
	void *arg;
	_Atomic pid_t tid;  /* 0 until the thread is about to call fn */
	_Atomic bool ended; /* fn has returned */
	unsigned long
		slept; /* how often the thread had slept when it was last looked at */
};

static inline void *waiter_run(void *arg)
{
	struct waiter *w = arg;
	void *rc;

	w->tid = gettid();
	rc = w->fn(w->arg);
	w->ended = true;
	return rc;
}

static inline void waiter_start(struct waiter *w, void *(*fn)(void *), void *arg)
{
	*w = (struct waiter){ .fn = fn, .arg = arg };
	if (pthread_create(&w->thread, NULL, waiter_run, w))
		abort();
}

static inline void *waiter_join(struct waiter *w)
{
	void *rc;

	if (pthread_join(w->thread, &rc))
		abort();
	return rc;
}

/* Does thread tid of this process sleep, or wait in the kernel (D)?  *slept: how often it
 * has done so. */
static inline bool thread_sleeps(pid_t tid, unsigned long *slept)
{
	char path[64], line[128], now = 'X';
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		sscanf(line, "State: %c", &now);
		sscanf(line, "voluntary_ctxt_switches: %lu", slept);
	}
	fclose(f);
	return now == 'S' || now == 'D';
}

/* Waits until the thread sleeps, and has begun to do so since the last call, or until fn
 * has returned.  Returns false in that second case. */
static inline bool waiter_sleeps(struct waiter *w)
{
	unsigned long slept = 0;

	while (!w->ended) {
		if (w->tid && thread_sleeps(w->tid, &slept) && slept > w->slept) {
			w->slept = slept;
			return !w->ended;
		}
		sched_yield();
	}
	return false;
}

/* Do all threads of this process sleep but the calling one? */
static inline bool others_sleep(void)
{
	DIR *dir = opendir("/proc/self/task");
	bool sleep = true;

	for (struct dirent *e; (e = readdir(dir));) {
		pid_t tid = atoi(e->d_name);
		unsigned long slept;

		if (tid && tid != gettid())
			sleep = sleep && thread_sleeps(tid, &slept);
	}
	closedir(dir);
	return sleep;
}

#endif
