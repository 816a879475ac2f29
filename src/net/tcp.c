/* SPDX-License-Identifier: BSD-2-Clause */
/* tcp.c - a stream that is a connected TCP socket; see stream.h. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/stream.h"
#include "sys/cancel.h"
#include "sys/fd.h"
#include "sys/list.h"
#include "sys/log.h"

enum {
	/* Keepalive notices a peer that vanished after a minute while nothing is
	 * unacknowledged; otherwise the kernel's retransmissions give up
	 * (net.ipv4.tcp_retries2). TCP_USER_TIMEOUT would also end a connection to a
	 * peer that answers but reads nothing, such as a stopped program. RDMAP itself
	 * has no timeouts. */
	IDLE_S = 30,
	PROBE_S = 6,
	PROBES = 5,
	MSS_LEAST = 536, /* bytes; RFC 9293, 3.7.1: if the kernel tells none */
};

struct tcp {
	struct stream s;
	struct fd_id id;
};

static struct tcp *tcp_of(struct stream *s)
{
	return container_of(s, struct tcp, s);
}

/* The program may have closed the socket and reused its number. */
static bool is_ours(struct stream *s)
{
	return s->fd >= 0 && fd_is(s->fd, &tcp_of(s)->id);
}

/* The kernel is short of memory for now; the connection is not lost. */
static bool is_full(int err)
{
	return err == EAGAIN || err == ENOBUFS || err == ENOMEM;
}

static ssize_t tcp_send(struct stream *s, const struct iovec *iov, unsigned n,
			uint64_t now)
{
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = n };
	ssize_t took;
	int was;

	(void)now;
	if (!is_ours(s))
		return -EBADF;
	was = cancel_hold();
	do {
		took = sendmsg(s->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (took < 0 && errno == EINTR);
	cancel_let(was);
	if (took >= 0)
		return took;
	return is_full(errno) ? 0 : -errno;
}

static ssize_t tcp_recv(struct stream *s, const struct iovec *iov, unsigned n,
			uint64_t now)
{
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = n };
	ssize_t got;

	(void)now;
	if (!is_ours(s))
		return -EBADF;
	do {
		got = recvmsg(s->fd, &m, MSG_DONTWAIT);
	} while (got < 0 && errno == EINTR);
	if (got > 0)
		return got;
	if (got == 0)
		return -ESHUTDOWN;
	return is_full(errno) ? 0 : -errno;
}

static void tcp_fin(struct stream *s)
{
	if (is_ours(s))
		shutdown(s->fd, SHUT_WR);
}

static uint64_t tcp_deadline(struct stream *s)
{
	(void)s;
	return UINT64_MAX;
}

/* Reads what is left: closing a socket with unread bytes resets the connection, and what
 * was sent last may be lost. */
static void drain(int fd)
{
	enum { PART = 1 << 20, PARTS = 8 };

	for (int i = 0; i < PARTS; i++)
		if (recv(fd, NULL, PART, MSG_TRUNC | MSG_DONTWAIT) <= 0)
			return;
}

static void tcp_close(struct stream *s)
{
	int was = cancel_hold();

	if (is_ours(s)) {
		drain(s->fd);
		close(s->fd);
	}
	cancel_let(was);
	free(tcp_of(s));
}

static const struct stream_ops tcp_ops = {
	tcp_send, tcp_recv, tcp_fin, tcp_deadline, tcp_close,
};

/* An option that is refused does not end the connection. */
static void set_options(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S },
		{ IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S },
		{ IPPROTO_TCP, TCP_KEEPCNT, PROBES },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			       sizeof(int)))
			log_debug("TCP option %d refused: %s", options[i].name,
				  strerror(errno));
}

static size_t mss_of(int fd)
{
	int mss = 0;
	socklen_t len = sizeof(mss);

	if (getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &mss, &len) || mss < MSS_LEAST)
		return MSS_LEAST;
	return (size_t)mss;
}

int stream_tcp_open(struct stream **out, int fd)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);
	struct tcp *t;
	int flags, rc;

	if (getpeername(fd, (struct sockaddr *)&peer, &len))
		return -errno;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ||
	    fd_identify(fd, &t->id)) {
		rc = -errno;
		free(t);
		return rc;
	}
	set_options(fd);
	t->s = (struct stream){ .ops = &tcp_ops, .mss = mss_of(fd) };
	/* fd itself may be closed now: it has got another number */
	t->s.fd = fd_raise(fd);
	fcntl(t->s.fd, F_SETFD, FD_CLOEXEC);
	*out = &t->s;
	return 0;
}

void stream_forked(struct stream *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}
