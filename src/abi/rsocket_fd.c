/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket_fd.c - descriptors and the sockets behind them; who sleeps on which. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "abi/rsocket.h"
#include "sys/fd.h"

/* --- defaults ------------------------------------------------------------------------ */

enum { MEM = 1 << 17, QUEUE = 384, INLINE = 64, POLLING_US = 10 };

static struct rsock_defaults defaults;

static uint32_t from_file(const char *name, uint32_t value, uint32_t max)
{
	char path[64];
	FILE *f;
	unsigned v;

	snprintf(path, sizeof(path), "/etc/rdma/rsocket/%s", name);
	f = fopen(path, "re");
	if (!f)
		return value;
	if (fscanf(f, "%u", &v) == 1)
		value = v < max ? v : max;
	fclose(f);
	return value;
}

static void read_defaults(void)
{
	defaults = (struct rsock_defaults){
		.mem = from_file("mem_default", MEM, 1 << 28),
		.wmem = from_file("wmem_default", MEM, 1 << 28),
		.sq_size = (uint16_t)from_file("sqsize_default", QUEUE, 8192),
		.rq_size = (uint16_t)from_file("rqsize_default", QUEUE, 8192),
		.inline_size = from_file("inline_default", INLINE, 256),
		.iomaps = from_file("iomap_size", 0, 0x7f00),
		.polling_us = from_file("polling_time", POLLING_US, 1000000),
	};
	if (defaults.mem < 2)
		defaults.mem = 2;
	if (!defaults.wmem)
		defaults.wmem = 1;
	if (defaults.sq_size < 2)
		defaults.sq_size = 2;
	if (defaults.rq_size < 2)
		defaults.rq_size = 2;
}

const struct rsock_defaults *rsock_defaults(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_defaults);
	return &defaults;
}

uint64_t rsock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- the table ----------------------------------------------------------------------- */

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rsock **table;			/* under table_lock */
static int table_size;
static _Atomic unsigned generation;		/* forks before us */
static pthread_mutex_t wait_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t thread_key;		/* holds a struct rsock_sleeper */
static bool key_made;

/* No verbs call is made under any of these: the NIC's own handlers, which have
 * been here before, hold its locks. */
static void forking(void)
{
	pthread_mutex_lock(&accept_lock);
	pthread_mutex_lock(&wait_lock);
	pthread_mutex_lock(&table_lock);
}

static void parent(void)
{
	pthread_mutex_unlock(&table_lock);
	pthread_mutex_unlock(&wait_lock);
	pthread_mutex_unlock(&accept_lock);
}

/* The eventfd is the parent's thread's, too: what it is told is not for us. */
static void child(void)
{
	struct rsock_sleeper *sl = key_made ? pthread_getspecific(thread_key) : NULL;

	parent();
	if (sl) {		/* it may be linked to a socket of the parent's */
		close(sl->efd);
		pthread_setspecific(thread_key, NULL);
	}
	atomic_fetch_add(&generation, 1);
}

static void watch_forks(void)
{
	pthread_atfork(forking, parent, child);
}

bool rsock_forked(const struct rsock *rs)
{
	return rs->generation != atomic_load(&generation);
}

/* Recursive: programs leave our calls by longjmp() out of a signal handler, and
 * then end (iperf3). */
static void init_lock(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

int rsock_new(int domain, int type, struct rsock **out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const struct rsock_defaults *d = rsock_defaults();
	struct rsock *rs = calloc(1, sizeof(*rs));

	if (!rs)
		return -ENOMEM;
	pthread_once(&once, watch_forks);
	rs->fd = -1;
	rs->domain = domain;
	rs->type = type;
	rs->sleep_fd = -1;
	atomic_init(&rs->refs, 1);
	rs->generation = atomic_load(&generation);
	init_lock(&rs->lock);
	rs->rcvbuf = d->mem;
	rs->sndbuf = d->wmem;
	rs->sq_size = d->sq_size;
	rs->rq_size = d->rq_size;
	rs->inline_size = d->inline_size;
	rs->iomaps = d->iomaps;
	list_init(&rs->maps);
	list_init(&rs->node);
	list_init(&rs->waiting);
	list_init(&rs->accepting);
	list_init(&rs->ready);
	list_init(&rs->waiters);
	*out = rs;
	return 0;
}

/* The number is the lowest that is free when the program asks: librspreload.so
 * counts on it, and select(). */
int rsock_publish(struct rsock *rs)
{
	int rc = 0;

	rs->fd = eventfd(0, EFD_CLOEXEC);
	if (rs->fd < 0)
		return -errno;
	pthread_mutex_lock(&table_lock);
	if (rs->fd >= table_size) {
		int size = (rs->fd / 256 + 1) * 256;
		struct rsock **more = realloc(table, (size_t)size * sizeof(*table));

		if (more) {
			memset(more + table_size, 0,
			       (size_t)(size - table_size) * sizeof(*table));
			table = more;
			table_size = size;
		} else {
			rc = -ENOMEM;
		}
	}
	if (!rc)
		table[rs->fd] = rs;
	pthread_mutex_unlock(&table_lock);
	return rc;
}

struct rsock *rsock_find(int fd)
{
	struct rsock *rs = NULL;

	pthread_mutex_lock(&table_lock);
	if (fd >= 0 && fd < table_size && table[fd]) {
		rs = table[fd];
		atomic_fetch_add(&rs->refs, 1);
	}
	pthread_mutex_unlock(&table_lock);
	return rs;
}

struct rsock *rsock_get(int fd)
{
	struct rsock *rs = rsock_find(fd);

	if (rs && !rsock_forked(rs))
		return rs;
	errno = rs ? EIO : EBADF;
	if (rs)
		rsock_put(rs);
	return NULL;
}

void rsock_put(struct rsock *rs)
{
	if (atomic_fetch_sub(&rs->refs, 1) == 1)
		rsock_free(rs);
}

bool rsock_hold(struct rsock *rs)
{
	unsigned n = atomic_load(&rs->refs);

	while (n && !atomic_compare_exchange_weak(&rs->refs, &n, n + 1))
		;
	return n;
}

struct rsock *rsock_withdraw(int fd)
{
	struct rsock *rs = NULL;

	pthread_mutex_lock(&table_lock);
	if (fd >= 0 && fd < table_size) {
		rs = table[fd];
		table[fd] = NULL;
	}
	pthread_mutex_unlock(&table_lock);
	return rs;
}

void rsock_each(void (*call)(struct rsock *rs))
{
	int n;

	pthread_mutex_lock(&table_lock);
	n = table_size;
	pthread_mutex_unlock(&table_lock);
	for (int fd = 0; fd < n; fd++) {
		struct rsock *rs = rsock_find(fd);

		if (!rs)
			continue;
		if (!rsock_forked(rs))
			call(rs);
		rsock_put(rs);
	}
}

/* --- sleeping -------------------------------------------------------------------------- */

static void unlink_all(struct rsock_sleeper *sl)
{
	if (!sl->n)
		return;
	pthread_mutex_lock(&wait_lock);
	while (sl->n) {
		struct rsock_waiter *w = &sl->waiters[--sl->n];

		list_del(&w->node);
		atomic_fetch_sub(&w->rs->nwaiters, 1);
	}
	pthread_mutex_unlock(&wait_lock);
}

static void free_sleeper(void *arg)
{
	struct rsock_sleeper *sl = arg;

	unlink_all(sl);
	close(sl->efd);
	free(sl->waiters);
	free(sl);
}

static void make_key(void)
{
	key_made = !pthread_key_create(&thread_key, free_sleeper);
}

static struct rsock_sleeper *make_sleeper(void)
{
	struct rsock_sleeper *sl = calloc(1, sizeof(*sl));

	if (!sl)
		return NULL;
	sl->efd = fd_raise(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (sl->efd >= 0 && !pthread_setspecific(thread_key, sl))
		return sl;
	if (sl->efd >= 0)
		close(sl->efd);
	free(sl);
	return NULL;
}

int rsock_sleeper(size_t n, struct rsock_sleeper **out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct rsock_sleeper *sl;

	pthread_once(&once, make_key);
	if (!key_made)
		return -ENOMEM;
	sl = pthread_getspecific(thread_key);
	if (!sl)
		sl = make_sleeper();
	if (!sl)
		return errno ? -errno : -ENOMEM;
	unlink_all(sl);
	rsock_clear(sl->efd);
	if (n > sl->room) {
		struct rsock_waiter *more = realloc(sl->waiters, n * sizeof(*more));

		if (!more)
			return -ENOMEM;
		sl->waiters = more;
		sl->room = n;
	}
	*out = sl;
	return 0;
}

void rsock_clear(int efd)
{
	uint64_t n;

	while (read(efd, &n, sizeof(n)) < 0 && errno == EINTR)
		;
}

void rsock_wait_begin(struct rsock_sleeper *sl, struct rsock *rs)
{
	struct rsock_waiter *w = &sl->waiters[sl->n];

	w->by = sl;
	w->rs = rs;
	pthread_mutex_lock(&wait_lock);
	list_add_tail(&rs->waiters, &w->node);
	sl->n++;
	atomic_fetch_add(&rs->nwaiters, 1);
	pthread_mutex_unlock(&wait_lock);
}

void rsock_wait_end(struct rsock_sleeper *sl)
{
	unlink_all(sl);
}

void rsock_wake(struct rsock *rs)
{
	static const uint64_t one = 1;

	if (!atomic_load(&rs->nwaiters))
		return;
	pthread_mutex_lock(&wait_lock);
	list_for(n, &rs->waiters) {
		int efd = container_of(n, struct rsock_waiter, node)->by->efd;

		while (write(efd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	}
	pthread_mutex_unlock(&wait_lock);
}
