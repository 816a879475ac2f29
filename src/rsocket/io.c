/* SPDX-License-Identifier: BSD-2-Clause */
/* io.c - see io.h. */
#include "rsocket/io.h"

#include <errno.h>
#include <string.h>

#include "rsocket/bind.h"
#include "rsocket/wait.h"

enum { RSOCK_CALL_MAX = 0x7ffff000 };

/* A position in an array of buffers. */
struct cursor {
	const struct iovec *iov;
	size_t at;
};

/* Returns the sum of the lengths, limited to what one call moves in Linux. */
static size_t total(const struct iovec *iov, int n)
{
	size_t all = 0;

	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len >= RSOCK_CALL_MAX - all)
			return RSOCK_CALL_MAX;
		all += iov[i].iov_len;
	}
	return all;
}

/* Copies len bytes between the cursor's position, which moves on, and flat memory. */
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

/* --- sending ------------------------------------------------------------- */

static int send_some(struct rsock_stream *st, struct cursor *c, size_t len, size_t *sent)
{
	uint32_t n = rs_room(&st->ep.s, len), most = st->sock.opt.sizes.inline_size;
	uint8_t small[RSOCK_INLINE_MAX];
	/* A piece that only fits the end of sbuf is not sent inline, as sbuf's head would
	 * not move on. */
	bool is_inline = n == len && n <= most && n <= sizeof(small);
	struct rs_write w;

	rs_send(&st->ep.s, n, is_inline, &w);
	copy(c, is_inline ? small : (uint8_t *)(uintptr_t)w.from, n, true);
	*sent += n;
	return rsock_conn_post(st, &w, is_inline ? small : NULL);
}

/* Returns the error for a socket without a connection: if_ended once it has ended. */
static int not_connected(struct rsock *rs, int if_ended)
{
	int err = rs->err;

	if (rs->state < RSOCK_UP)
		return rs->state == RSOCK_CONNECTING ? -EAGAIN : -ENOTCONN;
	rs->err = 0;
	return err ? -err : if_ended;
}

ssize_t rsock_send(struct rsock *rs, const struct iovec *iov, int n, int flags,
		   const struct sockaddr *to, socklen_t tolen)
{
	bool nonblock = rs->nonblock || flags & MSG_DONTWAIT;
	struct rsock_stream *st = rsock_stream_of(rs);
	struct cursor c = { .iov = iov };
	size_t len = total(iov, n), sent = 0;
	bool null = rsock_iov_has_null(iov, n);
	int rc = 0;

	(void)to;
	(void)tolen;
	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	do {
		if (rs->state != RSOCK_UP || st->write_end)
			rc = not_connected(rs, -EPIPE);
		else if (sent < len && !st->ep.s.to.length)
			rsock_conn_progress(st); /* reposts receives that grants used */
		if (!rc && sent < len)
			rc = rsock_wait(rs, rsock_conn_writable, nonblock, true,
					RSOCK_FOREVER);
		if (rc || rs->state != RSOCK_UP || st->write_end)
			continue;
		if (sent < len)
			rc = null ? -EFAULT : send_some(st, &c, len - sent, &sent);
	} while (!rc && sent < len);
	return sent ? (ssize_t)sent : rc;
}

/* --- receiving ----------------------------------------------------------- */

static size_t take(struct rs_stream *s, struct cursor *c, size_t len, bool peek)
{
	size_t got = 0;

	while (got < len) {
		const uint8_t *at;
		uint32_t n = rs_unread(s, peek ? (uint32_t)got : 0, &at);

		if (!n)
			break;
		if (n > len - got)
			n = (uint32_t)(len - got);
		copy(c, (uint8_t *)(uintptr_t)at, n, false);
		if (!peek)
			rs_consume(s, n);
		got += n;
	}
	return got;
}

static ssize_t receive(struct rsock *rs, const struct iovec *iov, int n, int flags)
{
	bool nonblock = rs->nonblock || flags & MSG_DONTWAIT, peek = flags & MSG_PEEK;
	struct rsock_stream *st = rsock_stream_of(rs);
	struct cursor c = { .iov = iov };
	size_t len = total(iov, n), got = 0;
	int rc;

	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (rs->state < RSOCK_UP)
		return not_connected(rs, 0);
	if (!len)
		return 0;
	do {
		rc = rsock_wait(rs, rsock_conn_readable, nonblock, false, RSOCK_FOREVER);
		if (rc)
			break;
		if (!st->ep.s.unread || st->read_shut) {
			rc = got ? 0 : not_connected(rs, 0);
			break;
		}
		if (rsock_iov_has_null(iov, n)) {
			rc = -EFAULT;
			break;
		}
		got += take(&st->ep.s, &c, len - got, peek);
		if (!peek)
			rsock_conn_grant(st);
	} while (flags & MSG_WAITALL && got < len && !peek);
	return got ? (ssize_t)got : rc;
}

ssize_t rsock_receive(struct rsock *rs, const struct iovec *iov, int n, int *flags,
		      struct sockaddr *from, socklen_t *fromlen)
{
	ssize_t rc = receive(rs, iov, n, *flags);

	*flags = 0;
	if (rc > 0 && from && fromlen)
		(void)rsock_name(rs, true, from, fromlen);
	return rc;
}
