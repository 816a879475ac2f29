/* SPDX-License-Identifier: BSD-2-Clause */
/* capture.c - copies of the packets that cross links, as ERF records, for programs that
 * capture.
 *
 * A slow program delays nothing: records that it has not taken are kept up to CAPTURE_MAX
 * bytes; further ones are dropped, and their number is in the next record.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/port/server.h"
#include "fabric/port/server_own.h"
#include "sys/clock.h"
#include "wire/erf.h"

enum { CAPTURE_MAX = 16 << 20, CAPTURE_FIRST = 65536 };

struct capture {
	bool all;
	uint8_t *buf;
	size_t begin, end, cap; /* records not yet sent are [begin, end) */
	uint16_t lost;		/* records dropped since the last one */
};

bool capture_begin(struct plug_conn *c, bool all)
{
	c->capture = calloc(1, sizeof(*c->capture));
	if (!c->capture)
		return false;
	c->capture->all = all;
	return true;
}

void capture_end(struct plug_conn *c)
{
	if (c->capture)
		free(c->capture->buf);
	free(c->capture);
	c->capture = NULL;
}

/* Makes room for n more bytes; returns false if that exceeds CAPTURE_MAX or memory. */
static bool make_room(struct capture *p, size_t n)
{
	size_t cap = p->cap ? p->cap : CAPTURE_FIRST;
	uint8_t *more;

	if (p->begin) {
		memmove(p->buf, p->buf + p->begin, p->end - p->begin);
		p->end -= p->begin;
		p->begin = 0;
	}
	while (cap - p->end < n && cap < CAPTURE_MAX)
		cap *= 2;
	if (cap - p->end < n)
		return false;
	if (cap == p->cap)
		return true;
	more = realloc(p->buf, cap);
	if (!more)
		return false;
	p->buf = more;
	p->cap = cap;
	return true;
}

static void add_bytes(struct capture *p, const uint8_t *frame, size_t len)
{
	struct erf h;

	if (p->cap - p->end < sizeof(h) + len && !make_room(p, sizeof(h) + len)) {
		p->lost = (uint16_t)(p->lost + (p->lost < UINT16_MAX));
		return;
	}
	h = erf_head(clock_read(CLOCK_REALTIME), len, p->lost);
	memcpy(p->buf + p->end, &h, sizeof(h));
	memcpy(p->buf + p->end + sizeof(h), frame, len);
	p->end += sizeof(h) + len;
	p->lost = 0;
}

/* Does c capture at either end of the link at that port? */
static bool sees(const struct plug_server *s, const struct plug_conn *c, uint32_t node,
		 uint8_t port)
{
	const struct topo_port *t = &s->topo->node[node].port[port];

	return c->capture->all || (c->ca == node && (!c->port || c->port == port)) ||
	       (c->ca == t->peer && (!c->port || c->port == t->peer_port));
}

void capture_packet(struct plug_server *s, uint32_t node, uint8_t port, uint8_t vl,
		    const struct mad_pkt *pkt)
{
	uint8_t frame[FABRIC_FRAME];
	size_t len = fabric_frame(frame, vl, pkt);

	list_for_safe(at, &s->captures)
	{
		struct plug_conn *c = container_of(at, struct plug_conn, node);

		if (sees(s, c, node, port))
			add_bytes(c->capture, frame, len);
	}
}

/* The length in bytes of as many whole records as fit into one message. */
static size_t whole_records(const struct capture *p)
{
	size_t n = 0;

	while (p->begin + n < p->end) {
		struct erf h;

		memcpy(&h, p->buf + p->begin + n, sizeof(h));
		if (n + get_be16(h.rlen) > PLUG_AT_ONCE)
			break;
		n += get_be16(h.rlen);
	}
	return n;
}

void capture_flush(struct plug_server *s, struct plug_conn *c)
{
	struct capture *p = c->capture;
	bool was = c->full;
	int rc = 0;

	while (!rc && p->begin < p->end) {
		size_t n = whole_records(p);

		rc = plug_say(c->fd, PLUG_RECORDS, p->buf + p->begin, n, -1, false);
		if (!rc)
			p->begin += n;
	}
	c->full = rc == -EAGAIN;
	if (rc == -EIO || (c->full != was && !plugged_watch(s, c)))
		plugged_end(s, c);
}

void capture_flush_all(struct plug_server *s)
{
	list_for_safe(at, &s->captures)
	{
		struct plug_conn *c = container_of(at, struct plug_conn, node);

		if (!c->full && c->capture->begin < c->capture->end)
			capture_flush(s, c);
	}
}
