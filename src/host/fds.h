/* SPDX-License-Identifier: BSD-2-Clause */
/* fds.h - messages with descriptors over a unix socket.  None blocks. */
#ifndef HOST_FDS_H
#define HOST_FDS_H

#include <sys/types.h>
#include <sys/uio.h>

#include "host/host.h"

/* fds: n <= HOST_FDS go along.  0, -EAGAIN, or -ESRCH: nobody is there. */
int fds_send(int fd, struct iovec *iov, size_t iovcnt, const int *fds, unsigned n);

/* As recv() with MSG_TRUNC.  fds[HOST_FDS]: those that came along, to be closed by
 * the caller, or -1. */
ssize_t fds_recv(int fd, void *buf, size_t size, int *fds);

#endif
