/* SPDX-License-Identifier: BSD-2-Clause */
/* wait.c - see wait.h. */
#include "rsocket/wait.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sys/fd.h"
#include "sys/held.h"

/* --- wait queues --------------------------------------------------------- */

struct rsock_link {
	struct list node;
	struct rsock_waitq *waitq;
	struct rsock_sleeper *by;
};

static pthread_mutex_t sleepers_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all links */
static pthread_key_t thread_key; /* its value is a struct rsock_sleeper */
static bool key_made;

void rsock_eventfd_set(int efd)
{
	static const uint64_t one = 1;

	while (write(efd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

void rsock_eventfd_clear(int efd)
{
	uint64_t n;

	while (read(efd, &n, sizeof(n)) < 0 && errno == EINTR)
		;
}

void rsock_waitq_wake(struct rsock_waitq *waitq)
{
	if (!atomic_load(&waitq->n))
		return;
	pthread_mutex_lock(&sleepers_lock);
	list_for(at, &waitq->links)
		rsock_eventfd_set(container_of(at, struct rsock_link, node)->by->efd);
	pthread_mutex_unlock(&sleepers_lock);
}

void rsock_sleeper_unlink(struct rsock_sleeper *sl)
{
	if (!sl->n)
		return;
	pthread_mutex_lock(&sleepers_lock);
	while (sl->n) {
		struct rsock_link *l = &sl->links[--sl->n];

		list_del(&l->node);
		atomic_fetch_sub(&l->waitq->n, 1);
	}
	pthread_mutex_unlock(&sleepers_lock);
}

void rsock_sleeper_link(struct rsock_sleeper *sl, struct rsock_waitq *waitq)
{
	struct rsock_link *l = &sl->links[sl->n];

	l->by = sl;
	l->waitq = waitq;
	pthread_mutex_lock(&sleepers_lock);
	list_add_tail(&waitq->links, &l->node);
	sl->n++;
	atomic_fetch_add(&waitq->n, 1);
	pthread_mutex_unlock(&sleepers_lock);
}

/* --- the sleeper of a thread --------------------------------------------- */

static void free_sleeper(void *arg)
{
	struct rsock_sleeper *sl = arg;

	rsock_sleeper_unlink(sl);
	close(sl->efd);
	free(sl->links);
	free(sl);
}

static void make_key(void)
{
	key_made = !pthread_key_create(&thread_key, free_sleeper);
}

static int make_sleeper(struct rsock_sleeper **out)
{
	struct rsock_sleeper *sl = calloc(1, sizeof(*sl));
	int rc;

	if (!sl)
		return -ENOMEM;
	sl->efd = fd_raise(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	rc = sl->efd < 0 ? -errno : -pthread_setspecific(thread_key, sl);
	if (!rc) {
		*out = sl;
		return 0;
	}
	if (sl->efd >= 0)
		close(sl->efd);
	free(sl);
	return rc;
}

int rsock_sleeper(size_t n, struct rsock_sleeper **out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct rsock_sleeper *sl;
	int rc = 0;

	pthread_once(&once, make_key);
	if (!key_made)
		return -ENOMEM;
	sl = pthread_getspecific(thread_key);
	if (!sl)
		rc = make_sleeper(&sl);
	if (rc)
		return rc;
	rsock_sleeper_unlink(sl);
	rsock_eventfd_clear(sl->efd);
	if (n > sl->room) {
		struct rsock_link *more = realloc(sl->links, n * sizeof(*more));

		if (!more)
			return -ENOMEM;
		sl->links = more;
		sl->room = n;
	}
	*out = sl;
	return 0;
}

/* --- around a fork ------------------------------------------------------- */

bool rsock_sleepers_lock(void)
{
	return held_fork(&sleepers_lock);
}

void rsock_sleepers_unlock(void)
{
	pthread_mutex_unlock(&sleepers_lock);
}

/* Gives up the eventfd, which is shared with the parent's thread. The memory is left as
 * it is, since it may be linked to a socket that the parent frees. */
void rsock_sleepers_forked(void)
{
	struct rsock_sleeper *sl = key_made ? pthread_getspecific(thread_key) : NULL;

	pthread_mutex_init(&sleepers_lock, NULL);
	if (!sl)
		return;
	close(sl->efd);
	pthread_setspecific(thread_key, NULL);
}

/* --- waiting ------------------------------------------------------------- */

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
static void wait_cancelled(void *arg)
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
	pthread_cleanup_push(wait_cancelled, rs);
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
