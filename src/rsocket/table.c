/* SPDX-License-Identifier: BSD-2-Clause */
/* table.c - see table.h. */
#include "rsocket/table.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sys/held.h"

enum { STEP = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Both under lock. A fork may come without the lock (held_fork()), and its child reads
 * them, so at each moment the table has room for size entries. */
static struct rsock_entry **_Atomic table;
static _Atomic int size;
static _Atomic unsigned forks;

void rsock_entry_init(struct rsock_entry *e, void (*free)(struct rsock_entry *e))
{
	e->fd = -1;
	e->free = free;
	e->forks = atomic_load(&forks);
	atomic_init(&e->refs, 1);
}

bool rsock_entry_forked(const struct rsock_entry *e)
{
	return e->forks != atomic_load(&forks);
}

/* Makes the table reach to fd. lock is held. */
static int make_room(int fd)
{
	int wanted = (fd / STEP + 1) * STEP;
	struct rsock_entry **more, **old = table;

	if (fd < size)
		return 0;
	more = calloc((size_t)wanted, sizeof(*more));
	if (!more)
		return -ENOMEM;
	if (old)
		memcpy(more, old, (size_t)size * sizeof(*more));
	table = more;
	size = wanted;
	free(old);
	return 0;
}

int rsock_entry_publish(struct rsock_entry *e)
{
	int fd = eventfd(0, EFD_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	pthread_mutex_lock(&lock);
	rc = make_room(fd);
	if (!rc) {
		e->fd = fd;
		table[fd] = e;
	}
	pthread_mutex_unlock(&lock);
	if (rc)
		close(fd);
	return rc ? rc : fd;
}

struct rsock_entry *rsock_entry_find(int fd)
{
	struct rsock_entry *e = NULL;

	pthread_mutex_lock(&lock);
	if (fd >= 0 && fd < size && table[fd]) {
		e = table[fd];
		atomic_fetch_add(&e->refs, 1);
	}
	pthread_mutex_unlock(&lock);
	return e;
}

struct rsock_entry *rsock_entry_withdraw(int fd)
{
	struct rsock_entry *e = NULL;

	pthread_mutex_lock(&lock);
	if (fd >= 0 && fd < size) {
		e = table[fd];
		table[fd] = NULL;
	}
	pthread_mutex_unlock(&lock);
	if (e) {
		e->fd = -1;
		close(fd);
	}
	return e;
}

bool rsock_entry_hold(struct rsock_entry *e)
{
	unsigned n = atomic_load(&e->refs);

	while (n && !atomic_compare_exchange_weak(&e->refs, &n, n + 1))
		;
	return n;
}

void rsock_entry_put(struct rsock_entry *e)
{
	if (atomic_fetch_sub(&e->refs, 1) == 1)
		e->free(e);
}

void rsock_entry_each(void (*call)(struct rsock_entry *e))
{
	int n;

	pthread_mutex_lock(&lock);
	n = size;
	pthread_mutex_unlock(&lock);
	for (int fd = 0; fd < n; fd++) {
		struct rsock_entry *e = rsock_entry_find(fd);

		if (!e)
			continue;
		if (!rsock_entry_forked(e))
			call(e);
		rsock_entry_put(e);
	}
}

bool rsock_table_lock(void)
{
	return held_fork(&lock);
}

void rsock_table_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void rsock_table_forked(void)
{
	pthread_mutex_init(&lock, NULL);
	atomic_fetch_add(&forks, 1);
}
