/* SPDX-License-Identifier: BSD-2-Clause */
/* wait.h - waits until a socket is ready: polls for a while, then sleeps. */
#ifndef RSOCKET_WAIT_H
#define RSOCKET_WAIT_H

#include "rsocket/os.h"
#include "rsocket/sock.h"

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
