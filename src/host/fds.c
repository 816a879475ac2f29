/* SPDX-License-Identifier: BSD-2-Clause */
/* fds.c - see fds.h. */
#include "host/fds.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	struct cmsghdr head;
	char room[FDS_ROOM];
};

void fds_put(struct msghdr *m, struct cmsghdr *at, const int *fds, unsigned n)
{
	memset(at, 0, CMSG_SPACE(n * sizeof(int)));
	m->msg_control = at;
	m->msg_controllen = CMSG_SPACE(n * sizeof(int));
	at->cmsg_level = SOL_SOCKET;
	at->cmsg_type = SCM_RIGHTS;
	at->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(at), fds, n * sizeof(int));
}

int fds_send(int fd, struct iovec *iov, size_t iovcnt, const int *fds, unsigned n)
{
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = iovcnt };
	union control u;

	if (n)
		fds_put(&m, &u.head, fds, n);
	if (sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM ||
			       errno == ETOOMANYREFS
		       ? -EAGAIN
		       : -ESRCH;
}

void fds_close(int fd)
{
	const struct linger none = { 0 };

	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fd);
}

void fds_take(const struct cmsghdr *c, int *fds, unsigned max)
{
	size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < n; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
		if (i < max)
			fds[i] = fd;
		else
			fds_close(fd);
	}
}

ssize_t fds_recv(int fd, void *buf, size_t size, int *fds)
{
	struct iovec iov = { buf, size };
	union control u;
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u) };
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&m) : NULL;

	for (int i = 0; i < HOST_FDS; i++)
		fds[i] = -1;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		fds_take(c, fds, HOST_FDS);
	return n;
}
