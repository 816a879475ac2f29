/* SPDX-License-Identifier: BSD-2-Clause */
/* sleeper.h - threads that sleep on sockets, and how they are woken.
 *
 * A thread polls an eventfd of its own beside the completion channels, and stands in the
 * wait queue of each socket that it sleeps on. Several threads can sleep on one socket,
 * and only one of them gets the channel's event, so a thread that takes an event or
 * changes a state wakes all threads in the queue. A common eventfd for each socket would
 * not do, as no thread could say when to clear it.
 *
 * The links between a thread and wait queues are in memory of the thread, not on its
 * stack: programs leave a call by longjmp() out of a signal handler (iperf3). The
 * thread's next call, or its end, removes such links. */
#ifndef RSOCKET_SLEEPER_H
#define RSOCKET_SLEEPER_H

#include <stdatomic.h>
#include <stddef.h>

#include "sys/list.h"

/* The wait queue that each socket has. */
struct rsock_waitq {
	struct list links; /* under the lock of sleeper.c */
	/* Length of links. A thread that changes a state may read 0 without the lock: a
	 * sleeper looks at the state once more after it has raised n. */
	_Atomic unsigned n;
};

struct rsock_link;

struct rsock_sleeper {
	int efd; /* to be polled */
	size_t n, room;
	struct rsock_link *links;
};

void rsock_waitq_init(struct rsock_waitq *waitq);
/* Wakes all threads in the queue. */
void rsock_waitq_wake(struct rsock_waitq *waitq);

/* Sets *out to the calling thread's sleeper, with room for n links and linked to no
 * queue. Returns 0 or -errno. */
int rsock_sleeper(size_t n, struct rsock_sleeper **out);
void rsock_sleeper_link(struct rsock_sleeper *sl, struct rsock_waitq *waitq);
void rsock_sleeper_unlink(struct rsock_sleeper *sl); /* from all queues */

void rsock_eventfd_set(int efd);
void rsock_eventfd_clear(int efd);

/* Around a fork: the lock; see held_fork(). rsock_sleepers_forked(), in the child, makes
 * it anew, and makes the only thread forget the queues in which the parent's stood. */
bool rsock_sleepers_lock(void);
void rsock_sleepers_unlock(void);
void rsock_sleepers_forked(void);

#endif
