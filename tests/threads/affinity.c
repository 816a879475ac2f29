/* SPDX-License-Identifier: BSD-2-Clause */
/* affinity.c - where may the engine's thread run?
 *
 *	free	nobody is pinned: everywhere
 *	main	the main thread is, and opens the device: elsewhere
 *	other	another thread is, and opens it: elsewhere
 *	narrow	the program was started on one processor (taskset): there
 *	worker	... and another thread, pinned to another, opens it: there
 *	moved	... and its main thread goes to another, and opens it: where that is
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "threads.h"

static struct rig r;

static int engine_thread(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *e;
	int tid = 0;

	CHECK(dir);
	while ((e = readdir(dir))) {
		char path[300], comm[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
		f = fopen(path, "r");
		if (f && fgets(comm, sizeof(comm), f) && !strcmp(comm, "urnic\n"))
			tid = atoi(e->d_name);
		if (f)
			fclose(f);
	}
	closedir(dir);
	return tid;
}

static void pin(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	CHECK(!sched_setaffinity(0, sizeof(one), &one));
}

/* Moves this thread to a processor that is not one of these, if there is one. */
static void move_from(const cpu_set_t *these)
{
	cpu_set_t all, one;

	memset(&all, 0xff, sizeof(all));
	CHECK(!sched_setaffinity(0, sizeof(all), &all));
	CHECK(!sched_getaffinity(0, sizeof(all), &all));
	for (size_t i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, &all) || CPU_ISSET(i, these))
			continue;
		CPU_ZERO(&one);
		CPU_SET(i, &one);
		CHECK(!sched_setaffinity(0, sizeof(one), &one));
		return;
	}
	CHECK(!sched_setaffinity(0, sizeof(*these), these));
}

static void *pinned_open(void *arg)
{
	if (!strcmp(opt.mode, "worker"))
		move_from(arg);
	else
		pin();
	rig_open(&r);
	return NULL;
}

int affinity(void)
{
	cpu_set_t all, mine, engine, both;
	pthread_t t;
	int tid = 0;

	CHECK(!sched_getaffinity(0, sizeof(all), &all));
	if (!strcmp(opt.mode, "other") || !strcmp(opt.mode, "worker")) {
		CHECK(!pthread_create(&t, NULL, pinned_open, &all));
		CHECK(!pthread_join(t, NULL));
	} else {
		if (!strcmp(opt.mode, "main"))
			pin();
		if (!strcmp(opt.mode, "moved"))
			move_from(&all);
		rig_open(&r);
	}
	CHECK(!sched_getaffinity(0, sizeof(mine), &mine));
	for (int i = 0; i < 1000 && !tid; i++) { /* the thread names itself */
		tid = engine_thread();
		sleep_ms(10);
	}
	CHECK(tid && !sched_getaffinity(tid, sizeof(engine), &engine));
	say("%d processors, the engine's thread on %d", CPU_COUNT(&all),
	    CPU_COUNT(&engine));
	CPU_AND(&both, &mine, &engine);
	if (!strcmp(opt.mode, "main") && CPU_COUNT(&all) > 1)
		CHECK(CPU_COUNT(&both) == 0);
	if (!strcmp(opt.mode, "other") && CPU_COUNT(&all) > 1)
		CHECK(CPU_COUNT(&engine) == CPU_COUNT(&all) - 1);
	if (!strcmp(opt.mode, "free"))
		CHECK(CPU_EQUAL(&engine, &all));
	if (!strcmp(opt.mode, "moved"))
		CHECK(CPU_EQUAL(&engine, &mine));
	if (!strcmp(opt.mode, "narrow") || !strcmp(opt.mode, "worker"))
		CHECK(CPU_COUNT(&all) == 1 && CPU_EQUAL(&engine, &all));
	rig_close(&r);
	say("all right");
	return 0;
}
