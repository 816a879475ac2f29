/* SPDX-License-Identifier: BSD-2-Clause */
/* wait.h - threads that wait for sockets: a thread looks for a while, then sleeps.
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
#ifndef RSOCKET_WAIT_H
#define RSOCKET_WAIT_H

#include <stdatomic.h>
#include <stddef.h>

#include "rsocket/os.h"
#include "rsocket/sock.h"
#include "sys/list.h"

/* --- wait queues and sleepers -------------------------------------------- */

struct rsock_link;

struct rsock_sleeper {
	int efd; /* to be polled */
	size_t n, room;
	struct rsock_link *links;
};

/* Wakes all threads in the queue. */
void rsock_waitq_wake(struct rsock_waitq *waitq);

static inline void rsock_wake(struct rsock *rs)
{
	rsock_waitq_wake(&rs->waitq);
}

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

/* --- waiting ------------------------------------------------------------- */

/* rsock_spin_ns() returns how many ns this thread polls before it sleeps; rsock_slept()
 * takes how long the thread's last wait took. */
uint64_t rsock_spin_ns(void);
void rsock_slept(uint64_t ns);

/* Waits until ready(rs), ns at most (RSOCK_FOREVER: no limit). Called with rs->lock,
 * which is released for sleeping. Returns 0, -EAGAIN (nonblock), -ETIMEDOUT, -EINTR, or
 * -EBADF if the socket was closed meanwhile. */
int rsock_wait(struct rsock *rs, bool (*ready)(struct rsock *), bool nonblock,
	       bool for_space, int64_t ns);

/* Waits until fd is writable or the socket has changed; the caller has to look which.
 * Called with rs->lock, which is released for sleeping. */
int rsock_wait_writable(struct rsock *rs, int fd);

#endif
