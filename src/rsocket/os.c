/* SPDX-License-Identifier: BSD-2-Clause */
/* os.c - see os.h. */
#include "rsocket/os.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "sys/cancel.h"
#include "sys/clock.h"

uint64_t rsock_now(void)
{
	return clock_ns();
}

int rsock_sleep(struct pollfd *fds, nfds_t n, int64_t ns)
{
	struct timespec t = { .tv_sec = ns / (int64_t)RSOCK_S,
			      .tv_nsec = ns % (int64_t)RSOCK_S };
	int some = ppoll(fds, n, ns < 0 ? NULL : &t, NULL);

	return some < 0 ? -errno : some;
}

int rsock_thread(void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	const sigset_t most = signals_most();
	sigset_t was;
	pthread_t t;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &most, &was); /* the thread inherits it */
	rc = pthread_create(&t, &attr, run, arg);
	signals_let(&was);
	pthread_attr_destroy(&attr);
	return -rc;
}
