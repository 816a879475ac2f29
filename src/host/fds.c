/* SPDX-License-Identifier: BSD-2-Clause */
/* fds.c - see fds.h. */
#include "host/fds.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int[HOST_FDS]))];
};

int fds_send(int fd, struct iovec *iov, size_t iovcnt, const int *fds, unsigned n)
{
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = iovcnt };
	union control u;

	if (n) {
		memset(&u, 0, sizeof(u));
		m.msg_control = &u;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		u.head.cmsg_level = SOL_SOCKET;
		u.head.cmsg_type = SCM_RIGHTS;
		u.head.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&u.head), fds, n * sizeof(int));
	}
	if (sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM ||
	       errno == ETOOMANYREFS ? -EAGAIN : -ESRCH;
}

ssize_t fds_recv(int fd, void *buf, size_t size, int *fds)
{
	struct iovec iov = { buf, size };
	union control u;
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1,
			    .msg_control = &u, .msg_controllen = sizeof(u) };
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&m) : NULL;

	for (int i = 0; i < HOST_FDS; i++)
		fds[i] = -1;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	return n;
}
