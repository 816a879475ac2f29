/* SPDX-License-Identifier: BSD-2-Clause */
/* fds.h - messages with descriptors over a unix socket.  None blocks. */
#ifndef HOST_FDS_H
#define HOST_FDS_H

#include <sys/types.h>
#include <sys/uio.h>

#include "host/host.h"

/* fds: n <= HOST_FDS go along.  0; -EAGAIN: there is no room, or the other side takes
 * no descriptors now; -ESRCH: nobody is there. */
int fds_send(int fd, struct iovec *iov, size_t iovcnt, const int *fds, unsigned n);

/* What came along with a message. */
struct fds_got {
	int fd[HOST_FDS]; /* for fds_let_go(); -1: none */
	unsigned n;	  /* so many came, of which fd has the first */
	uid_t uid;	  /* the sender, where the socket has SO_PASSCRED */
	pid_t pid;	  /* .. 0: that cannot be said */
};

/* As recv() with MSG_TRUNC. */
ssize_t fds_recv(int fd, void *buf, size_t size, struct fds_got *got);
void fds_let_go(struct fds_got *got);

/* Close a unix socket of ours, to which others could send descriptors unless the kernel
 * refuses them: to close those that lie unread may take long. */
void fds_hang_up(int fd);

#endif
