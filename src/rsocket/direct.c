/* SPDX-License-Identifier: BSD-2-Clause */
/* direct.c - see direct.h. */
#include "rsocket/direct.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "rsocket/wait.h"

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
