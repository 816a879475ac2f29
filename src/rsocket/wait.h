/* SPDX-License-Identifier: BSD-2-Clause */
/* wait.h - waiting until a socket is ready: looking for a while, then sleeping. */
#ifndef RSOCKET_WAIT_H
#define RSOCKET_WAIT_H

#include "rsocket/os.h"
#include "rsocket/sock.h"

/* How many ns this thread looks before it sleeps; how long its last wait took,
 * when it did sleep. */
uint64_t rsock_spin_ns(void);
void rsock_slept(uint64_t ns);

/* With rs->lock, which is released for sleeping: until ready(rs), ns at most
 * (RSOCK_FOREVER).  0; -EAGAIN (nonblock), -ETIMEDOUT, -EINTR; -EBADF: the socket
 * was closed meanwhile. */
int rsock_wait(struct rsock *rs, bool (*ready)(struct rsock *), bool nonblock,
	       bool for_space, int64_t ns);

/* The same until fd can be written to, or something has changed: it is for the caller
 * to look. */
int rsock_wait_writable(struct rsock *rs, int fd);

#endif
