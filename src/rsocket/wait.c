/* SPDX-License-Identifier: BSD-2-Clause */
/* wait.c - see wait.h. */
#include "rsocket/wait.h"

#include <errno.h>
#include <pthread.h>

#include "sys/held.h"

enum { QUICK_US = 200 };

/* Was the thread's last wait shorter than QUICK_US? If so, it polls for at least QUICK_US
 * before it sleeps again: waking a thread takes some 50 us, and two threads that sleep
 * whenever they wait for each other would pay that for each message. */
static _Thread_local bool quick = true;

uint64_t rsock_spin_ns(void)
{
	uint64_t us = rsock_defaults()->polling_us;

	return (us && quick && us < QUICK_US ? QUICK_US : us) * 1000;
}

void rsock_slept(uint64_t ns)
{
	quick = ns < QUICK_US * 1000;
}

/* Cleanup if the thread is cancelled while it sleeps, which ends its call. */
static void cancelled(void *arg)
{
	struct rsock_sleeper *sl;

	(void)rsock_sleeper(0, &sl); /* unlinks the thread from the socket */
	rsock_put(arg);
}

static int sleep_unlocked(struct rsock *rs, struct pollfd *p, nfds_t n, int64_t ns)
{
	struct held self;
	int rc;

	pthread_mutex_unlock(&rs->lock);
	pthread_cleanup_push(cancelled, rs);
	self = held_sleep();
	rc = rsock_sleep(p, n, ns);
	held_wake(self);
	pthread_cleanup_pop(0);
	pthread_mutex_lock(&rs->lock);
	return rc;
}

/* Sleeps once. What came between the caller's last look and arm() is found by the look
 * after arm(). */
static int sleep_once(struct rsock *rs, bool (*ready)(struct rsock *), bool for_space,
		      int64_t ns)
{
	struct rsock_sleeper *sl;
	int rc = rsock_sleeper(1, &sl);

	if (rc)
		return rc;
	rsock_sleeper_link(sl, &rs->waitq);
	rs->kind->arm(rs, for_space);
	rs->kind->progress(rs);
	if (!ready(rs) && !rs->closed) {
		struct pollfd p[2] = { { .fd = sl->efd, .events = POLLIN },
				       { .fd = rs->sleep_fd, .events = POLLIN } };

		rc = sleep_unlocked(rs, p, 2, ns);
	}
	rsock_sleeper_unlink(sl);
	rs->kind->take_events(rs);
	return rc < 0 ? rc : 0;
}

int rsock_wait_writable(struct rsock *rs, int fd)
{
	struct rsock_sleeper *sl;
	int rc = rsock_sleeper(1, &sl);

	if (rc)
		return rc;
	rsock_sleeper_link(sl, &rs->waitq);
	if (!rs->closed) {
		struct pollfd p[2] = { { .fd = sl->efd, .events = POLLIN },
				       { .fd = fd, .events = POLLOUT } };

		rc = sleep_unlocked(rs, p, 2, RSOCK_FOREVER);
	}
	rsock_sleeper_unlink(sl);
	return rs->closed ? -EBADF : rc < 0 ? rc : 0;
}

int rsock_wait(struct rsock *rs, bool (*ready)(struct rsock *), bool nonblock,
	       bool for_space, int64_t ns)
{
	uint64_t begin = 0, end = 0;

	for (;;) {
		uint64_t now;
		int rc;

		if (!rs->closed && (rs->kind->eager || !ready(rs)))
			rs->kind->progress(rs);
		if (rs->closed)
			return -EBADF;
		if (ready(rs))
			return 0;
		if (nonblock)
			return -EAGAIN;
		now = rsock_now();
		if (!begin) {
			begin = now;
			end = now + (ns > 0 ? (uint64_t)ns : 0);
		}
		if (ns >= 0 && now >= end)
			return -ETIMEDOUT;
		if (now - begin < rsock_spin_ns() && rs->kind->may_spin(rs))
			continue;
		rc = sleep_once(rs, ready, for_space, ns < 0 ? ns : rsock_left(end));
		if (rc)
			return rc;
		rsock_slept(rsock_now() - begin);
	}
}
