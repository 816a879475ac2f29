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
	uid_t uid;	  /* the sender: see fds_recv() */
	pid_t pid;	  /* .. 0: that cannot be said */
};

/* As recv() with MSG_TRUNC.  The sender is user uid where the socket has no
 * SO_PASSCRED. */
ssize_t fds_recv(int fd, uid_t uid, void *buf, size_t size, struct fds_got *got);
/* Close them: those of another user at some time (sys/closer.h), those of this user, who
 * can do anything in any case, at once. */
void fds_let_go(struct fds_got *got, bool foreign);

#endif
