/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/stream_loop.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/list.h"
#include "sys/rand.h"

enum { CHUNKS = 4096 };

struct end {
	struct stream s;
	struct end *peer; /* NULL: closed */
	struct stream_loop_conf conf;
	struct prng r;
	/* Received bytes [out, in) of a ring, and the times at which parts of them
	 * become visible, in order. */
	uint8_t *ring;
	uint64_t in, out, seen;
	struct {
		uint64_t upto, due;
	} chunk[CHUNKS];
	unsigned first, last;
	bool ended; /* the peer has ended sending */
	int broken;
	void (*tap)(void *arg, uint8_t *at, size_t n);
	void *tap_arg;
};

static struct end *end_of(struct stream *s)
{
	return container_of(s, struct end, s);
}

/* Returns how many of n bytes one call transfers: all, or at random fewer, from one byte
 * up. */
static size_t cut(struct end *e, size_t n)
{
	if (!e->conf.seed || n <= 1 || rand_below(&e->r, 3) == 0)
		return n;
	if (rand_below(&e->r, 4) == 0)
		return 1 + (size_t)rand_below(&e->r, n < 8 ? n : 8);
	return 1 + (size_t)rand_below(&e->r, n);
}

static size_t total(const struct iovec *iov, unsigned n)
{
	size_t all = 0;

	for (unsigned i = 0; i < n; i++)
		all += iov[i].iov_len;
	return all;
}

static void put_bytes(struct end *to, const uint8_t *at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to->ring[to->in++ % to->conf.depth] = at[i];
}

static void put_all(struct end *e, const struct iovec *iov, size_t n)
{
	struct end *to = e->peer;

	for (; n > 0; iov++) {
		size_t take = iov->iov_len < n ? iov->iov_len : n;
		uint8_t *copy = malloc(take ? take : 1);

		assert(copy);
		memcpy(copy, iov->iov_base, take);
		if (e->tap)
			e->tap(e->tap_arg, copy, take);
		put_bytes(to, copy, take);
		free(copy);
		n -= take;
	}
}

static ssize_t loop_send(struct stream *s, const struct iovec *iov, unsigned n,
			 uint64_t now)
{
	struct end *e = end_of(s), *to = e->peer;
	size_t all = total(iov, n), room;
	uint64_t due = now + e->conf.latency, before;

	if (e->broken)
		return -e->broken;
	if (!to)
		return -EPIPE;
	room = to->conf.depth - (size_t)(to->in - to->out);
	if (to->last - to->first == CHUNKS)
		room = 0;
	all = cut(e, all < room ? all : room);
	if (all == 0)
		return 0;
	put_all(e, iov, all);
	if (e->conf.jitter)
		due += rand_below(&e->r, e->conf.jitter);
	before = to->last == to->first ? 0 : to->chunk[(to->last - 1) % CHUNKS].due;
	to->chunk[to->last % CHUNKS].due = due > before ? due : before;
	to->chunk[to->last++ % CHUNKS].upto = to->in;
	return (ssize_t)all;
}

static void see(struct end *e, uint64_t now)
{
	while (e->first != e->last && e->chunk[e->first % CHUNKS].due <= now)
		e->seen = e->chunk[e->first++ % CHUNKS].upto;
}

static ssize_t loop_recv(struct stream *s, const struct iovec *iov, unsigned n,
			 uint64_t now)
{
	struct end *e = end_of(s);
	size_t all = total(iov, n), left;

	if (e->broken)
		return -e->broken;
	see(e, now);
	if (all > e->seen - e->out)
		all = (size_t)(e->seen - e->out);
	if (all == 0)
		return e->ended && e->out == e->in ? -ESHUTDOWN : 0;
	all = left = cut(e, all);
	for (; left > 0; iov++) {
		size_t take = iov->iov_len < left ? iov->iov_len : left;

		for (size_t i = 0; i < take; i++)
			((uint8_t *)iov->iov_base)[i] = e->ring[e->out++ % e->conf.depth];
		left -= take;
	}
	return (ssize_t)all;
}

static void loop_fin(struct stream *s)
{
	struct end *e = end_of(s);

	if (e->peer)
		e->peer->ended = true;
}

static uint64_t loop_deadline(struct stream *s)
{
	struct end *e = end_of(s);

	if (e->out != e->seen || e->broken || (e->ended && e->out == e->in))
		return 0;
	return e->first == e->last ? UINT64_MAX : e->chunk[e->first % CHUNKS].due;
}

static void loop_close(struct stream *s)
{
	struct end *e = end_of(s);

	if (e->peer) {
		e->peer->ended = true;
		e->peer->peer = NULL;
	}
	free(e->ring);
	free(e);
}

static const struct stream_ops loop_ops = {
	loop_send, loop_recv, loop_fin, loop_deadline, loop_close,
};

static struct end *make_end(const struct stream_loop_conf *conf, uint64_t which)
{
	struct end *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->conf = *conf;
	if (!e->conf.depth)
		e->conf.depth = 256 << 10;
	e->ring = malloc(e->conf.depth);
	if (!e->ring) {
		free(e);
		return NULL;
	}
	rand_seed(&e->r, conf->seed * 2 + which);
	e->s = (struct stream){ .ops = &loop_ops,
				.fd = -1,
				.mss = conf->mss ? conf->mss : 1448 };
	return e;
}

int stream_loop_pair(struct stream **a, struct stream **b,
		     const struct stream_loop_conf *conf)
{
	struct end *x = make_end(conf, 0), *y = make_end(conf, 1);

	if (!x || !y) {
		if (x)
			loop_close(&x->s);
		if (y)
			loop_close(&y->s);
		return -ENOMEM;
	}
	x->peer = y;
	y->peer = x;
	*a = &x->s;
	*b = &y->s;
	return 0;
}

void stream_loop_break(struct stream *s, int why)
{
	struct end *e = end_of(s);

	e->broken = why;
	if (e->peer)
		e->peer->broken = why;
}

void stream_loop_tap(struct stream *s, void (*tap)(void *arg, uint8_t *at, size_t n),
		     void *arg)
{
	end_of(s)->tap = tap;
	end_of(s)->tap_arg = arg;
}
