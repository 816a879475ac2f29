/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket_iomap.c - direct placement: riomap, riounmap, riowrite. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "abi/rsocket.h"

static bool can_say(struct rsock *rs)
{
	return rs->state != RSOCK_UP || rs_may_control(&rs->s);
}

/* An offset that overlaps no other: behind them all. */
static uint64_t choose_offset(const struct rsock *rs)
{
	uint64_t end = 0;

	list_for(n, &rs->maps) {
		const struct rsock_map *m = container_of(n, struct rsock_map, node);

		if (m->remote && m->offset + m->len > end)
			end = m->offset + m->len;
	}
	return (end + 4095) & ~4095ull;
}

static int choose_index(const struct rsock *rs, uint32_t *index)
{
	for (uint32_t i = 0; i < rs->s.peer_iomaps; i++) {
		bool used = false;

		list_for(n, &rs->maps) {
			const struct rsock_map *m = container_of(n, struct rsock_map, node);

			used |= m->remote && m->index == i;
		}
		if (used)
			continue;
		*index = i;
		return 0;
	}
	return -ENOBUFS;
}

static int tell(struct rsock *rs, const struct rsock_map *m, uint32_t len)
{
	struct rs_iomap entry = {
		.offset = m->offset,
		.sge = { .addr = (uintptr_t)m->buf, .key = m->mr->rkey, .length = len },
	};
	struct rs_write w;
	int rc = rsock_wait(rs, can_say, false, true, -1);

	if (rc)
		return rc;
	if (rs->state != RSOCK_UP)
		return -ENOTCONN;
	rs_send_iomap(&rs->s, m->index, &entry, &w);
	return rsock_post(rs, &w, NULL);
}

static int do_map(struct rsock *rs, void *buf, size_t len, int prot, off_t offset,
		  struct rsock_map **out)
{
	bool remote = prot & PROT_WRITE;
	struct rsock_map *m;
	int rc = 0;

	if (!rsock_is_stream(rs) || rs->state != RSOCK_UP)
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
	m->offset = offset == -1 ? choose_offset(rs) : (uint64_t)offset;
	if (remote)
		rc = choose_index(rs, &m->index);
	list_add_tail(&rs->maps, &m->node);	/* the index is taken while we wait */
	if (!rc) {
		m->mr = ibv_reg_mr(rs->id->pd, buf, len, IBV_ACCESS_LOCAL_WRITE |
				   (remote ? IBV_ACCESS_REMOTE_WRITE : 0));
		rc = m->mr ? 0 : -errno;
	}
	if (!rc && remote)
		rc = tell(rs, m, (uint32_t)len);
	if (!rc) {
		*out = m;
		return 0;
	}
	list_del(&m->node);
	if (m->mr)
		ibv_dereg_mr(m->mr);
	free(m);
	return rc;
}

EXPORT off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	struct rsock *rs = rsock_get(socket);
	struct rsock_map *m;
	off_t at = -1;
	int rc;

	(void)flags;
	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rc = do_map(rs, buf, len, prot, offset, &m);
	if (!rc)
		at = (off_t)m->offset;
	pthread_mutex_unlock(&rs->lock);
	rsock_put(rs);
	return rc ? cma_result(rc) : at;
}

static int do_unmap(struct rsock *rs, const void *buf, size_t len)
{
	list_for_safe(n, &rs->maps) {
		struct rsock_map *m = container_of(n, struct rsock_map, node);
		int rc = 0;

		if (m->buf != buf || m->len != len || m->going)
			continue;
		m->going = true;	/* its index is taken until the peer is told */
		if (m->remote && rs->state == RSOCK_UP)
			rc = tell(rs, m, 0);
		list_del(n);
		ibv_dereg_mr(m->mr);
		free(m);
		return rc;
	}
	return -EINVAL;
}

EXPORT int riounmap(int socket, void *buf, size_t len)
{
	struct rsock *rs = rsock_get(socket);
	int rc;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rc = do_unmap(rs, buf, len);
	pthread_mutex_unlock(&rs->lock);
	rsock_put(rs);
	return cma_result(rc);
}

static bool has_space(struct rsock *rs)
{
	return rs->state != RSOCK_UP || rs->write_end ||
	       (rs->s.used < rs->s.m.sbuf_size && rs->s.data_out < rs->s.m.sq);
}

static ssize_t write_direct(struct rsock *rs, const uint8_t *buf, size_t count,
			    uint64_t offset, bool nonblock)
{
	size_t sent = 0;
	int rc = 0;

	while (!rc && sent < count) {
		struct rs_write w;

		rc = rsock_wait(rs, has_space, nonblock, true, -1);
		if (!rc && (rs->state != RSOCK_UP || rs->write_end))
			rc = rs->state < RSOCK_UP ? -ENOTCONN : -EPIPE;
		if (rc)
			break;
		if (!rs_send_direct(&rs->s, offset + sent, count - sent, &w)) {
			rc = -EINVAL;
			break;
		}
		memcpy((void *)(uintptr_t)w.from, buf + sent, w.len);
		rc = rsock_post(rs, &w, NULL);
		sent += rc ? 0 : w.len;
	}
	return sent ? (ssize_t)sent : rc;
}

EXPORT size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	struct rsock *rs = rsock_get(socket);
	ssize_t rc;

	if (!rs)
		return (size_t)-1;
	pthread_mutex_lock(&rs->lock);
	rc = rsock_is_stream(rs) ?
		write_direct(rs, buf, count, (uint64_t)offset,
			     rs->nonblock || flags & MSG_DONTWAIT) : -EOPNOTSUPP;
	pthread_mutex_unlock(&rs->lock);
	rsock_put(rs);
	return rc < 0 ? (size_t)cma_result((int)rc) : (size_t)rc;
}
