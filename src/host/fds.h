/* SPDX-License-Identifier: BSD-2-Clause */
/* fds.h - messages with descriptors over a unix socket.  None blocks. */
#ifndef HOST_FDS_H
#define HOST_FDS_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "host/host.h"

/* The kernel closes what finds no room at the receiver's, and may take its time: so
 * there is room for as many as it lets anybody send (SCM_MAX_FD). */
enum { FDS_MAX = 253, FDS_ROOM = CMSG_SPACE(sizeof(int[FDS_MAX])) };

/* n descriptors go along with m; at is the room for that. */
void fds_put(struct msghdr *m, struct cmsghdr *at, const int *fds, unsigned n);

/* fds: n <= HOST_FDS go along.  0, -EAGAIN, or -ESRCH: nobody is there. */
int fds_send(int fd, struct iovec *iov, size_t iovcnt, const int *fds, unsigned n);

/* What came along with a message. */
struct fds_got {
	int fd[HOST_FDS]; /* to be closed by the caller; -1: none */
	uid_t uid;	  /* the sender, where the socket has SO_PASSCRED */
	pid_t pid;	  /* .. 0: that cannot be said */
};

/* As recv() with MSG_TRUNC. */
ssize_t fds_recv(int fd, void *buf, size_t size, struct fds_got *got);

/* Close one that came along: at once, even if it is a socket that was to linger, or
 * one in which such a socket lies unread.  -1: there is none. */
void fds_close(int fd);

/* Close a unix socket of ours, at which descriptors may lie unread, and connections if
 * it listens: closed by the kernel with the socket, they would be waited for. */
void fds_hang_up(int fd);
void fds_drain(int fd); /* the same, but for the last step */

#endif
