/* SPDX-License-Identifier: BSD-2-Clause */
/* os.h - the clock, sleeping, and starting the service thread: all that depends on real
 * time. Unit tests link os_fix.c instead, with a virtual clock. */
#ifndef RSOCKET_OS_H
#define RSOCKET_OS_H

#include <poll.h>
#include <stdint.h>

#define RSOCK_MS      UINT64_C(1000000) /* in ns */
#define RSOCK_S	      UINT64_C(1000000000)
#define RSOCK_FOREVER INT64_C(-1)

uint64_t rsock_now(void); /* ns, monotonic */
/* As poll(2), but with the limit in ns (RSOCK_FOREVER: none). Returns how many
 * descriptors are ready, or -errno. */
int rsock_sleep(struct pollfd *fds, nfds_t n, int64_t ns);
/* Starts a detached thread with all signals blocked but SIGSEGV and SIGBUS. Returns 0 or
 * -errno. */
int rsock_thread(void *(*run)(void *), void *arg);

/* Returns the ns from now to end, or 0 if end is past. */
static inline int64_t rsock_left(uint64_t end)
{
	uint64_t now = rsock_now();

	return now < end ? (int64_t)(end - now) : 0;
}

#endif
