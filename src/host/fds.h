/* SPDX-License-Identifier: BSD-2-Clause */
/* fds.h - messages with file descriptors over a unix socket. No call blocks. */
#ifndef HOST_FDS_H
#define HOST_FDS_H

#include <sys/types.h>
#include <sys/uio.h>

#include "host/host.h"

/* Sends a message with n <= HOST_FDS descriptors. Returns 0; -EAGAIN: no room, or the
 * receiver takes no descriptors now; -ESRCH: there is no receiver. */
int fds_send(int fd, struct iovec *iov, size_t iovcnt, const int *fds, unsigned n);

/* What arrived with a message. */
struct fds_got {
	int fd[HOST_FDS]; /* to be closed by fds_let_go(); -1: none */
	unsigned n;	  /* descriptors that came; fd has the first of them */
	uid_t uid;	  /* the sender's user: see fds_recv() */
	pid_t pid;	  /* the sender; 0: unknown */
};

/* Like recv() with MSG_TRUNC. `uid` is taken as the sender's user if the socket has no
 * SO_PASSCRED. */
ssize_t fds_recv(int fd, uid_t uid, void *buf, size_t size, struct fds_got *got);
/* Closes the descriptors. Those of another user (`foreign`) are closed at some later
 * time by a thread (sys/closer.h), because that may block; those of this user at once,
 * since this user's processes can do us any harm anyway. */
void fds_let_go(struct fds_got *got, bool foreign);

#endif
