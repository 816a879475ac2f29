/* SPDX-License-Identifier: BSD-2-Clause */
/* fds.c - see fds.h. */
#include "host/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
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

/* --- closing --------------------------------------------------------------------- */

/* The kernel lets sockets travel in sockets that travel.  What is deeper than this
 * is left to it. */
enum { DEPTH_MAX = 4 };

static void close_at(int fd, unsigned depth);

static void close_all(const struct msghdr *m, unsigned depth)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c;
	     c = CMSG_NXTHDR((struct msghdr *)(uintptr_t)m, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			close_at(fd, depth);
		}
	}
}

/* False: there is no other.  An empty message differs from the end, but on a stream:
 * it brings its sender's credentials (SOCK_SEQPACKET), or the end is an error. */
static bool drop_message(int fd, int type, unsigned depth)
{
	uint8_t data[1024];
	struct iovec iov = { data, sizeof(data) };
	union {
		struct cmsghdr head;
		char room[FDS_ROOM + CMSG_SPACE(sizeof(struct ucred))];
	} u;
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u) };
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0) /* said once, of a peer that ended with something unread */
		return errno == ECONNRESET || errno == EINTR;
	close_all(&m, depth);
	return n > 0 || type == SOCK_DGRAM ||
	       (type == SOCK_SEQPACKET && m.msg_controllen > 0);
}

static void drain(int fd, unsigned depth)
{
	const int on = 1;
	int type = 0, next;
	socklen_t len = sizeof(type);

	/* Nothing comes after what is there. */
	shutdown(fd, SHUT_RD);
	setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len);
	while (drop_message(fd, type, depth))
		;
	/* If it listens: */
	while ((next = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
		close_at(next, depth);
}

static bool is_unix(int fd)
{
	int domain;
	socklen_t len = sizeof(domain);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
	       domain == AF_UNIX;
}

static void close_at(int fd, unsigned depth)
{
	const struct linger none = { 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	if (depth < DEPTH_MAX && is_unix(fd)) {
		fcntl(fd, F_SETFL, O_NONBLOCK);
		drain(fd, depth + 1);
	}
	close(fd);
}

void fds_close(int fd)
{
	if (fd >= 0)
		close_at(fd, 0);
}

void fds_drain(int fd)
{
	if (fd >= 0)
		drain(fd, 0);
}

void fds_hang_up(int fd)
{
	fds_drain(fd);
	if (fd >= 0)
		close(fd);
}

/* --- receiving ------------------------------------------------------------------- */

/* The first are got's, the rest is closed. */
static void take_fds(const struct cmsghdr *c, struct fds_got *got)
{
	size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < n; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
		if (i < HOST_FDS)
			got->fd[i] = fd;
		else
			fds_close(fd);
	}
}

static void take_sender(const struct cmsghdr *c, struct fds_got *got)
{
	struct ucred by;

	memcpy(&by, CMSG_DATA(c), sizeof(by));
	got->uid = by.uid;
	got->pid = by.pid;
}

ssize_t fds_recv(int fd, void *buf, size_t size, struct fds_got *got)
{
	struct iovec iov = { buf, size };
	union {
		struct cmsghdr head;
		char room[FDS_ROOM + CMSG_SPACE(sizeof(struct ucred))];
	} u;
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u) };
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);

	*got = (struct fds_got){ .uid = (uid_t)-1 };
	for (int i = 0; i < HOST_FDS; i++)
		got->fd[i] = -1;
	if (n < 0)
		return n;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_RIGHTS)
			take_fds(c, got);
		else if (c->cmsg_type == SCM_CREDENTIALS)
			take_sender(c, got);
	}
	return n;
}
