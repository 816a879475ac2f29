/* SPDX-License-Identifier: BSD-2-Clause */
/* os.h - the clock, sleeping, and the service thread's start: all that depends
 * on real time.  Unit tests link fake_os.c instead, where time is virtual. */
#ifndef RSOCKET_OS_H
#define RSOCKET_OS_H

#include <poll.h>
#include <stdint.h>

#define RSOCK_MS      UINT64_C(1000000) /* in ns */
#define RSOCK_S	      UINT64_C(1000000000)
#define RSOCK_FOREVER INT64_C(-1)

uint64_t rsock_now(void); /* ns, monotonic */
/* As poll(2), but the limit is in ns (RSOCK_FOREVER: none).  How many
 * descriptors are ready, or -errno. */
int rsock_sleep(struct pollfd *fds, nfds_t n, int64_t ns);
/* A detached thread that takes no signal but those of a fault.  0 or -errno. */
int rsock_thread(void *(*run)(void *), void *arg);

/* ns from now to end, 0 if that is past. */
static inline int64_t rsock_left(uint64_t end)
{
	uint64_t now = rsock_now();

	return now < end ? (int64_t)(end - now) : 0;
}

#endif
