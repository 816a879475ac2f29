/* SPDX-License-Identifier: BSD-2-Clause */
/* closer.c - see closer.h.  The thread is there while something is to be closed. */
#include "sys/closer.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "sys/lock.h"
#include "sys/log.h"

/* A host room that ends lets all its connections go at once. */
enum { FULL = 64, ROOM = 4096 };

static struct lock lock;
static int waiting[ROOM] GUARDED_BY(lock); /* their order is of no use to anybody */
static _Atomic unsigned nwaiting;
static bool running GUARDED_BY(lock);

static int take(void)
{
	int fd = -1;

	lock_take(&lock);
	if (nwaiting)
		fd = waiting[--nwaiting];
	else
		running = false;
	lock_give(&lock);
	return fd;
}

static void *close_all(void *arg)
{
	int fd;

	while ((fd = take()) >= 0)
		close(fd);
	return arg;
}

/* An ordinary thread, whatever the one is that calls. */
static bool start(void)
{
	const struct sched_param none = { 0 };
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t t;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_OTHER);
	pthread_attr_setschedparam(&attr, &none);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&t, &attr, close_all, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return rc == 0;
}

void closer_put(int fd)
{
	bool kept;

	if (fd < 0)
		return;
	lock_take(&lock);
	kept = nwaiting < ROOM;
	if (kept)
		waiting[nwaiting++] = fd;
	if (!running)
		running = start();
	lock_give(&lock);
	if (!kept)
		log_error("descriptor %d stays open: too many of other users wait to be "
			  "closed",
			  fd);
}

bool closer_is_full(void)
{
	return nwaiting >= FULL;
}

/* The lock may have been held when the process was copied. */
__attribute__((no_sanitize("thread"))) void closer_forked(void) NO_TSA
{
	lock_init(&lock);
	nwaiting = 0;
	running = false;
}
