/* SPDX-License-Identifier: BSD-2-Clause */
/* streamsock.c - see streamsock.h. */
#include "rsocket/streamsock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "rsocket/listener.h"
#include "rsocket/os.h"
#include "rsocket/service_thread.h"
#include "rsocket/sock.h"
#include "rsocket/streamconn.h"
#include "rsocket/wait.h"

/* --- positions in buffers ------------------------------------------------ */

enum { RSOCK_CALL_MAX = 0x7ffff000 };

/* A position in an array of buffers. */
struct cursor {
	const struct iovec *iov;
	size_t at;
};

/* Returns the sum of the lengths, limited to what one call moves in Linux. */
static size_t total_bytes(const struct iovec *iov, int n)
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
static void copy_bytes(struct cursor *c, uint8_t *flat, size_t len, bool to_flat)
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
	copy_bytes(c, is_inline ? small : (uint8_t *)(uintptr_t)w.from, n, true);
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
	size_t len = total_bytes(iov, n), sent = 0;
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

static size_t take_bytes(struct rs_stream *s, struct cursor *c, size_t len, bool peek)
{
	size_t got = 0;

	while (got < len) {
		const uint8_t *at;
		uint32_t n = rs_unread(s, peek ? (uint32_t)got : 0, &at);

		if (!n)
			break;
		if (n > len - got)
			n = (uint32_t)(len - got);
		copy_bytes(c, (uint8_t *)(uintptr_t)at, n, false);
		if (!peek)
			rs_consume(s, n);
		got += n;
	}
	return got;
}

static ssize_t receive_bytes(struct rsock *rs, const struct iovec *iov, int n, int flags)
{
	bool nonblock = rs->nonblock || flags & MSG_DONTWAIT, peek = flags & MSG_PEEK;
	struct rsock_stream *st = rsock_stream_of(rs);
	struct cursor c = { .iov = iov };
	size_t len = total_bytes(iov, n), got = 0;
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
		got += take_bytes(&st->ep.s, &c, len - got, peek);
		if (!peek)
			rsock_conn_grant(st);
	} while (flags & MSG_WAITALL && got < len && !peek);
	return got ? (ssize_t)got : rc;
}

ssize_t rsock_receive(struct rsock *rs, const struct iovec *iov, int n, int *flags,
		      struct sockaddr *from, socklen_t *fromlen)
{
	ssize_t rc = receive_bytes(rs, iov, n, *flags);

	*flags = 0;
	if (rc > 0 && from && fromlen)
		(void)rsock_name(rs, true, from, fromlen);
	return rc;
}

/* --- direct placement ---------------------------------------------------- */

static bool can_say(struct rsock *rs)
{
	return rs->state != RSOCK_UP || rs_may_control(&rsock_stream_of(rs)->ep.s);
}

/* Returns an offset behind all maps, so that it overlaps none. */
static uint64_t choose_offset(const struct rsock_stream *st)
{
	uint64_t end = 0;

	list_for(n, &st->maps)
	{
		const struct rsock_map *m = container_of(n, struct rsock_map, node);

		if (m->remote && m->offset + m->len > end)
			end = m->offset + m->len;
	}
	return (end + 4095) & ~4095ull;
}

static int choose_index(const struct rsock_stream *st, uint32_t *index)
{
	for (uint32_t i = 0; i < st->ep.s.peer_iomaps; i++) {
		bool used = false;

		list_for(n, &st->maps)
		{
			const struct rsock_map *m =
				container_of(n, struct rsock_map, node);

			used |= m->remote && m->index == i;
		}
		if (used)
			continue;
		*index = i;
		return 0;
	}
	return -ENOBUFS;
}

/* Writes m's iomap entry to the peer; len 0: the buffer is not mapped any more. */
static int tell_peer(struct rsock_stream *st, const struct rsock_map *m, uint32_t len)
{
	struct rs_iomap entry = {
		.offset = m->offset,
		.sge = { .addr = (uintptr_t)m->buf, .key = m->mr->rkey, .length = len },
	};
	struct rs_write w;
	int rc = rsock_wait(&st->sock, can_say, false, true, RSOCK_FOREVER);

	if (rc)
		return rc;
	if (st->sock.state != RSOCK_UP)
		return -ENOTCONN;
	rs_send_iomap(&st->ep.s, m->index, &entry, &w);
	return rsock_conn_post(st, &w, NULL);
}

int rsock_direct_map(struct rsock_stream *st, void *buf, size_t len, int prot,
		     off_t offset, off_t *at)
{
	bool remote = prot & PROT_WRITE;
	struct rsock_map *m;
	int rc = 0;

	if (st->sock.state != RSOCK_UP)
		return -ENOTCONN;
	if (!buf || !len || len > UINT32_MAX || (prot & ~(PROT_WRITE | PROT_NONE)) ||
	    (remote && offset < -1))
		return -EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->buf = buf;
	m->len = len;
	m->remote = remote;
	m->offset = offset == -1 ? choose_offset(st) : (uint64_t)offset;
	if (remote)
		rc = choose_index(st, &m->index);
	/* Added first, so that its index is taken while tell_peer() waits. */
	list_add_tail(&st->maps, &m->node);
	if (!rc) {
		m->mr = ibv_reg_mr(st->id->pd, buf, len,
				   IBV_ACCESS_LOCAL_WRITE |
					   (remote ? IBV_ACCESS_REMOTE_WRITE : 0));
		rc = m->mr ? 0 : -errno;
	}
	if (!rc && remote)
		rc = tell_peer(st, m, (uint32_t)len);
	if (!rc) {
		*at = (off_t)m->offset;
		return 0;
	}
	list_del(&m->node);
	if (m->mr)
		ibv_dereg_mr(m->mr);
	free(m);
	return rc;
}

int rsock_direct_unmap(struct rsock_stream *st, const void *buf, size_t len)
{
	list_for_safe(n, &st->maps)
	{
		struct rsock_map *m = container_of(n, struct rsock_map, node);
		int rc = 0;

		if (m->buf != buf || m->len != len || m->going)
			continue;
		m->going = true; /* its index stays taken until the peer is told */
		if (m->remote && st->sock.state == RSOCK_UP)
			rc = tell_peer(st, m, 0);
		list_del(n);
		ibv_dereg_mr(m->mr);
		free(m);
		return rc;
	}
	return -EINVAL;
}

static bool has_space(struct rsock *rs)
{
	const struct rsock_stream *st = rsock_stream_of(rs);
	const struct rs_stream *s = &st->ep.s;

	return rs->state != RSOCK_UP || st->write_end ||
	       (s->used < s->m.sbuf_size && s->data_out < s->m.sq);
}

ssize_t rsock_direct_write(struct rsock_stream *st, const void *buf, size_t count,
			   uint64_t offset, int flags)
{
	bool nonblock = st->sock.nonblock || flags & MSG_DONTWAIT;
	size_t sent = 0;
	int rc = 0;

	while (!rc && sent < count) {
		struct rs_write w;

		rc = rsock_wait(&st->sock, has_space, nonblock, true, RSOCK_FOREVER);
		if (!rc && (st->sock.state != RSOCK_UP || st->write_end))
			rc = st->sock.state < RSOCK_UP ? -ENOTCONN : -EPIPE;
		if (rc)
			break;
		if (!rs_send_direct(&st->ep.s, offset + sent, count - sent, &w)) {
			rc = -EINVAL;
			break;
		}
		memcpy((void *)(uintptr_t)w.from, (const uint8_t *)buf + sent, w.len);
		rc = rsock_conn_post(st, &w, NULL);
		sent += rc ? 0 : w.len;
	}
	return sent ? (ssize_t)sent : rc;
}

static void progress_stream(struct rsock *rs)
{
	rsock_conn_progress(rsock_stream_of(rs));
}

/* --- options ------------------------------------------------------------- */

static int set_stream_option(struct rsock *rs, int level, int name, const void *val,
			     socklen_t len)
{
	struct rsock_stream *st = rsock_stream_of(rs);
	int rc = rsock_option_set(rs, level, name, val, len), reuse = rs->reuse;

	if (rc || level != SOL_SOCKET)
		return rc;
	if (name == SO_REUSEADDR && st->id)
		rdma_set_option(st->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse,
				sizeof(reuse));
	if (name == SO_KEEPALIVE) {
		st->kept = rsock_now();
		if (rs->opt.keepalive)
			rsock_service_keep_alive();
	}
	return 0;
}

static uint8_t tcp_state(const struct rsock_stream *st)
{
	switch (st->sock.state) {
	case RSOCK_LISTENING:
		return TCP_LISTEN;
	case RSOCK_CONNECTING:
		return TCP_SYN_SENT;
	case RSOCK_UP:
		if (st->read_end)
			return st->write_end ? TCP_CLOSE : TCP_CLOSE_WAIT;
		return st->write_end ? TCP_FIN_WAIT2 : TCP_ESTABLISHED;
	case RSOCK_NEW:
	case RSOCK_BOUND:
	case RSOCK_WAITING:
	case RSOCK_DOWN:
		break;
	}
	return TCP_CLOSE;
}

/* Programs use TCP_INFO to find out whether a connection exists, so little else is filled
 * in. */
static int get_tcp_info(struct rsock *rs, void *val, socklen_t *len)
{
	struct tcp_info info = {
		.tcpi_state = tcp_state(rsock_stream_of(rs)),
		.tcpi_snd_mss = 4096,
		.tcpi_rcv_mss = 4096,
		.tcpi_rcv_space = rs->opt.sizes.rcvbuf * 2,
	};

	if (*len > sizeof(info))
		*len = sizeof(info);
	memcpy(val, &info, *len);
	return 0;
}

static int get_stream_option(struct rsock *rs, int level, int name, void *val,
			     socklen_t *len)
{
	bool info = level == IPPROTO_TCP && name == TCP_INFO;

	if (info || (level == SOL_SOCKET && name == SO_ERROR))
		progress_stream(rs);
	return info ? get_tcp_info(rs, val, len)
		    : rsock_option_get(rs, level, name, val, len);
}

/* --- keepalives ---------------------------------------------------------- */

/* Posts a WRITE of no bytes every keep_idle seconds: if it is not acknowledged, the QP
 * fails. */
static void send_keepalive(struct rsock *rs)
{
	int idle = rs->opt.keep_idle ? rs->opt.keep_idle : RSOCK_KEEP_IDLE;
	struct rsock_stream *st = rsock_stream_of(rs);
	struct rs_write w;

	if (pthread_mutex_trylock(&rs->lock))
		return; /* another thread uses it */
	rsock_conn_progress(st);
	if (rs->opt.keepalive && rs->state == RSOCK_UP && !st->said_disconnect &&
	    !st->peer_disconnected &&
	    rsock_now() - st->kept >= (uint64_t)idle * RSOCK_S &&
	    rs_may_control(&st->ep.s)) {
		st->kept = rsock_now();
		rs_send_keepalive(&st->ep.s, &w);
		(void)rsock_conn_post(st, &w, NULL);
	}
	pthread_mutex_unlock(&rs->lock);
}

/* --- the kind ------------------------------------------------------------ */

static const struct rsock_kind stream_kind = {
	.progress = progress_stream,
	.may_spin = rsock_conn_may_spin,
	.arm = rsock_conn_arm,
	.take_events = rsock_conn_take_events,
	.events = rsock_conn_events,
	.bind = rsock_bind,
	.connect = rsock_connect,
	.name = rsock_name,
	.send = rsock_send,
	.receive = rsock_receive,
	.set_option = set_stream_option,
	.get_option = get_stream_option,
	.shutdown = rsock_shutdown,
	.close = rsock_close,
	.event = rsock_connect_event,
	.tick = send_keepalive,
	.is_over = rsock_close_is_over,
	.at_exit = rsock_close_at_exit,
	.free = rsock_close_free,
};

int rsock_streamsock_new(int domain, struct rsock **out)
{
	struct rsock_stream *st;
	int rc = rsock_stream_new(&stream_kind, domain, &st);

	if (!rc)
		*out = &st->sock;
	return rc;
}
