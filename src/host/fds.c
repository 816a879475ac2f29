/* SPDX-License-Identifier: BSD-2-Clause */
/* fds.c - see fds.h. */
#include "host/fds.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sys/closer.h"
#include "sys/rights.h"

int fds_send(int fd, struct iovec *iov, size_t iovcnt, const int *fds, unsigned n)
{
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = iovcnt };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int[HOST_FDS]))];
	} u;

	if (n)
		rights_put(&m, &u.head, fds, n);
	if (sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM ||
			       errno == ETOOMANYREFS || (errno == EPERM && n)
		       ? -EAGAIN
		       : -ESRCH;
}

static void take_sender(struct msghdr *m, struct fds_got *got)
{
	struct ucred by;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
			continue;
		memcpy(&by, CMSG_DATA(c), sizeof(by));
		got->uid = by.uid;
		got->pid = by.pid;
	}
}

ssize_t fds_recv(int fd, uid_t uid, void *buf, size_t size, struct fds_got *got)
{
	struct iovec iov = { buf, size };
	union {
		struct cmsghdr head;
		char room[RIGHTS_ROOM + CMSG_SPACE(sizeof(struct ucred))];
	} u;
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u) };
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);

	if (n < 0)
		m.msg_controllen = 0;
	*got = (struct fds_got){ .uid = uid };
	take_sender(&m, got);
	got->n = rights_take(&m, got->uid, got->fd, HOST_FDS);
	return n;
}

void fds_let_go(struct fds_got *got, bool foreign)
{
	for (int i = 0; i < HOST_FDS; i++) {
		if (foreign)
			closer_put(got->uid, got->fd[i]);
		else if (got->fd[i] >= 0)
			close(got->fd[i]);
	}
}
