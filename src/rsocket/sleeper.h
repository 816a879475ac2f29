/* SPDX-License-Identifier: BSD-2-Clause */
/* sleeper.h - threads that sleep on sockets, and how they are woken.
 *
 * A thread polls an eventfd of its own, beside the completion channels, and is in
 * the wait queue of each socket that it sleeps on.  Several threads can sleep on
 * one socket, and only one of them gets the channel's event: so a thread that takes
 * an event, or changes a state, wakes all threads in the queue.  An eventfd for
 * each socket would not do: no thread could say when to clear it.
 *
 * The links between a thread and its queues are memory of the thread, not of its
 * stack: programs leave a call by longjmp() out of a signal handler and then end
 * (iperf3).  The thread's next call, or its end, unlinks what was left. */
#ifndef RSOCKET_SLEEPER_H
#define RSOCKET_SLEEPER_H

#include <stdatomic.h>
#include <stddef.h>

#include "sys/list.h"

/* A socket has one. */
struct rsock_waitq {
	struct list links;  /* under the lock of sleeper.c */
	_Atomic unsigned n; /* 0 is seen by a thread that changes a state
			     * before the sleeper's last look at it */
};

struct rsock_link;

struct rsock_sleeper {
	int efd; /* an eventfd, to be polled */
	size_t n, room;
	struct rsock_link *links;
};

void rsock_waitq_init(struct rsock_waitq *waitq);
/* Wakes all threads in it. */
void rsock_waitq_wake(struct rsock_waitq *waitq);

/* The calling thread, with room for n things, linked to none.  0 or -errno. */
int rsock_sleeper(size_t n, struct rsock_sleeper **out);
void rsock_sleeper_link(struct rsock_sleeper *sl, struct rsock_waitq *waitq);
void rsock_sleeper_unlink(struct rsock_sleeper *sl); /* from all */

void rsock_eventfd_set(int efd);
void rsock_eventfd_clear(int efd);

/* Around a fork: the lock; then, in the child, its one thread forgets the things
 * that the parent's thread slept on. */
void rsock_sleepers_lock(void);
void rsock_sleepers_unlock(void);
void rsock_sleepers_forked(void);

#endif
