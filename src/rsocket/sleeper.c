/* SPDX-License-Identifier: BSD-2-Clause */
/* sleeper.c - see sleeper.h. */
#include "rsocket/sleeper.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sys/fd.h"
#include "sys/held.h"

struct rsock_link {
	struct list node;
	struct rsock_waitq *waitq;
	struct rsock_sleeper *by;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all links */
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

void rsock_waitq_init(struct rsock_waitq *waitq)
{
	list_init(&waitq->links);
	atomic_init(&waitq->n, 0);
}

void rsock_waitq_wake(struct rsock_waitq *waitq)
{
	if (!atomic_load(&waitq->n))
		return;
	pthread_mutex_lock(&lock);
	list_for(at, &waitq->links)
		rsock_eventfd_set(container_of(at, struct rsock_link, node)->by->efd);
	pthread_mutex_unlock(&lock);
}

void rsock_sleeper_unlink(struct rsock_sleeper *sl)
{
	if (!sl->n)
		return;
	pthread_mutex_lock(&lock);
	while (sl->n) {
		struct rsock_link *l = &sl->links[--sl->n];

		list_del(&l->node);
		atomic_fetch_sub(&l->waitq->n, 1);
	}
	pthread_mutex_unlock(&lock);
}

void rsock_sleeper_link(struct rsock_sleeper *sl, struct rsock_waitq *waitq)
{
	struct rsock_link *l = &sl->links[sl->n];

	l->by = sl;
	l->waitq = waitq;
	pthread_mutex_lock(&lock);
	list_add_tail(&waitq->links, &l->node);
	sl->n++;
	atomic_fetch_add(&waitq->n, 1);
	pthread_mutex_unlock(&lock);
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
	return held_fork(&lock);
}

void rsock_sleepers_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* Gives up the eventfd, which is shared with the parent's thread. The memory is left as
 * it is, since it may be linked to a socket that the parent frees. */
void rsock_sleepers_forked(void)
{
	struct rsock_sleeper *sl = key_made ? pthread_getspecific(thread_key) : NULL;

	pthread_mutex_init(&lock, NULL);
	if (!sl)
		return;
	close(sl->efd);
	pthread_setspecific(thread_key, NULL);
}
