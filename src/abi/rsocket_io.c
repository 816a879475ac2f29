/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket_io.c - sending and receiving. */
#include <string.h>
#include <sys/uio.h>

#include "abi/rsocket.h"

/* A place in an array of buffers. */
struct cursor { const struct iovec *iov; size_t at; };

static size_t total(const struct iovec *iov, int n)
{
	size_t all = 0;

	for (int i = 0; i < n; i++)
		all += iov[i].iov_len;
	return all;
}

/* Between the cursor's place, which moves on, and flat memory. */
static void copy(struct cursor *c, uint8_t *flat, size_t len, bool to_flat)
{
	while (len) {
		size_t now = c->iov->iov_len - c->at;
		uint8_t *p = (uint8_t *)c->iov->iov_base + c->at;

		if (now > len)
			now = len;
		if (to_flat)
			memcpy(flat, p, now);
		else
			memcpy(p, flat, now);
		flat += now;
		len -= now;
		c->at += now;
		if (c->at == c->iov->iov_len) {
			c->iov++;
			c->at = 0;
		}
	}
}

/* --- sending ---------------------------------------------------------------------------- */

static int send_some(struct rsock *rs, struct cursor *c, size_t len, size_t *sent)
{
	uint32_t n = rs_room(&rs->s, len);
	uint8_t small[256];
	/* not what is left at sbuf's end: that would stay so for ever */
	bool is_inline = n == len && n <= rs->inline_size && n <= sizeof(small);
	struct rs_write w;

	rs_send(&rs->s, n, is_inline, &w);
	copy(c, is_inline ? small : (uint8_t *)(uintptr_t)w.from, n, true);
	*sent += n;
	return rsock_post(rs, &w, is_inline ? small : NULL);
}

static int not_connected(struct rsock *rs)
{
	int err = rs->err;

	if (rs->state < RSOCK_UP)
		return rs->state == RSOCK_CONNECTING ? -EAGAIN : -ENOTCONN;
	rs->err = 0;
	return err ? -err : -EPIPE;
}

static ssize_t send_stream(struct rsock *rs, const struct iovec *iov, int n, int flags)
{
	bool nonblock = rs->nonblock || flags & MSG_DONTWAIT;
	struct cursor c = { .iov = iov };
	size_t len = total(iov, n), sent = 0;
	int rc = 0;

	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	do {
		if (rs->state != RSOCK_UP || rs->write_end)
			rc = not_connected(rs);
		else if (sent < len && !rs->s.to.length)
			rsock_progress(rs);	/* else grants pile up, and receives run out */
		if (!rc && sent < len)
			rc = rsock_wait(rs, rsock_writable, nonblock, true, -1);
		if (rc || rs->state != RSOCK_UP || rs->write_end)
			continue;
		if (sent < len)
			rc = send_some(rs, &c, len - sent, &sent);
	} while (!rc && sent < len);
	return sent ? (ssize_t)sent : rc;
}

static ssize_t send_to(int socket, const struct iovec *iov, int n, int flags,
		       const struct sockaddr *to, socklen_t tolen)
{
	struct rsock *rs = rsock_get(socket);
	ssize_t rc;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rc = rsock_is_stream(rs) ? send_stream(rs, iov, n, flags) :
				   rsock_dgram_send(rs, iov, n, flags, to, tolen);
	pthread_mutex_unlock(&rs->lock);
	rsock_put(rs);
	if (rc >= 0)
		return rc;
	errno = (int)-rc;
	return -1;
}

EXPORT ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	const struct iovec iov = { (void *)(uintptr_t)buf, len };

	return send_to(socket, &iov, 1, flags, NULL, 0);
}

EXPORT ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
		       const struct sockaddr *dest_addr, socklen_t addrlen)
{
	const struct iovec iov = { (void *)(uintptr_t)buf, len };

	return send_to(socket, &iov, 1, flags, dest_addr, addrlen);
}

EXPORT ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	if (msg->msg_controllen)
		return cma_result(-EOPNOTSUPP);
	return send_to(socket, msg->msg_iov, (int)msg->msg_iovlen, flags, msg->msg_name,
		       msg->msg_namelen);
}

EXPORT ssize_t rwrite(int socket, const void *buf, size_t count)
{
	return rsend(socket, buf, count, 0);
}

EXPORT ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	if (iovcnt < 0)
		return cma_result(-EINVAL);
	return send_to(socket, iov, iovcnt, 0, NULL, 0);
}

/* --- receiving ----------------------------------------------------------------------------- */

static size_t take(struct rsock *rs, struct cursor *c, size_t len, bool peek)
{
	size_t got = 0;

	while (got < len) {
		const uint8_t *at;
		uint32_t n = rs_unread(&rs->s, peek ? (uint32_t)got : 0, &at);

		if (!n)
			break;
		if (n > len - got)
			n = (uint32_t)(len - got);
		copy(c, (uint8_t *)(uintptr_t)at, n, false);
		if (!peek)
			rs_consume(&rs->s, n);
		got += n;
	}
	return got;
}

/* Nothing to read: the end, or what is wrong. */
static int at_end(struct rsock *rs)
{
	int err = rs->err;

	if (rs->state < RSOCK_UP)
		return rs->state == RSOCK_CONNECTING ? -EAGAIN : -ENOTCONN;
	rs->err = 0;
	return -err;
}

static ssize_t receive_stream(struct rsock *rs, const struct iovec *iov, int n, int flags)
{
	bool nonblock = rs->nonblock || flags & MSG_DONTWAIT, peek = flags & MSG_PEEK;
	struct cursor c = { .iov = iov };
	size_t len = total(iov, n), got = 0;
	int rc;

	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (rs->state < RSOCK_UP)
		return at_end(rs);
	if (!len)
		return 0;
	do {
		rc = rsock_wait(rs, rsock_readable, nonblock, false, -1);
		if (rc)
			break;
		if (!rs->s.unread || rs->read_shut) {
			rc = got ? 0 : at_end(rs);
			break;
		}
		got += take(rs, &c, len - got, peek);
		if (!peek)
			rsock_grant(rs);
	} while (flags & MSG_WAITALL && got < len && !peek);
	return got ? (ssize_t)got : rc;
}

static ssize_t receive_from(int socket, const struct iovec *iov, int n, int *flags,
			    struct sockaddr *from, socklen_t *fromlen)
{
	struct rsock *rs = rsock_get(socket);
	ssize_t rc;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	if (rsock_is_stream(rs)) {
		rc = receive_stream(rs, iov, n, *flags);
		*flags = 0;
		if (rc > 0 && from && fromlen)
			(void)rsock_name(rs, true, from, fromlen);
	} else {
		rc = rsock_dgram_receive(rs, iov, n, flags, from, fromlen);
	}
	pthread_mutex_unlock(&rs->lock);
	rsock_put(rs);
	if (rc >= 0)
		return rc;
	errno = (int)-rc;
	return -1;
}

EXPORT ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags,
			 struct sockaddr *src_addr, socklen_t *addrlen)
{
	const struct iovec iov = { buf, len };

	return receive_from(socket, &iov, 1, &flags, src_addr, addrlen);
}

EXPORT ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	const struct iovec iov = { buf, len };

	return receive_from(socket, &iov, 1, &flags, NULL, NULL);
}

EXPORT ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	ssize_t rc = receive_from(socket, msg->msg_iov, (int)msg->msg_iovlen, &flags,
				  msg->msg_name, &msg->msg_namelen);

	if (rc >= 0) {
		msg->msg_controllen = 0;
		msg->msg_flags = flags;
	}
	return rc;
}

EXPORT ssize_t rread(int socket, void *buf, size_t count)
{
	return rrecv(socket, buf, count, 0);
}

EXPORT ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	int flags = 0;

	if (iovcnt < 0)
		return cma_result(-EINVAL);
	return receive_from(socket, iov, iovcnt, &flags, NULL, NULL);
}
