/* SPDX-License-Identifier: BSD-2-Clause */
/* pollset.h - rpoll() and rselect(), over rsockets and other descriptors together. */
#ifndef RSOCKET_POLLSET_H
#define RSOCKET_POLLSET_H

#include <poll.h>
#include <sys/select.h>

/* As poll(2) and select(2), but an error is returned as -errno. */
int rsocket_poll(struct pollfd *fds, nfds_t n, int ms);
int rsocket_select(int n, fd_set *in, fd_set *out, fd_set *except,
		   const struct timeval *timeout);

#endif
