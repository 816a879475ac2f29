/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.c - see conn.h. */
#include "driver/conn.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/tuning.h"
#include "driver/wraps.h"
#include "iwarp/iwarp.h"
#include "net/stream.h"
#include "sys/alloc.h"
#include "sys/cancel.h"
#include "sys/fd.h"
#include "sys/list.h"
#include "sys/log.h"
#include "sys/source.h"
#include "verbs/core.h"
#include "verbs/due.h"
#include "verbs/qp.h"

enum {
	FEW = CONNS_FEW,
	EVENTS = 64,
};

/* A QP's connection; stream->user points to it. */
struct tcp_conn {
	struct list node;
	struct qp *qp;
	struct stream *stream;
	bool blocked; /* EPOLLOUT is requested */
	bool deaf;    /* the peer sends no more */
	bool paused;  /* the QP takes no bytes now, and nobody awaits any */
	/* stays in the epoll set for ever: the program closed the descriptor, but the
	 * file lives on */
	bool stuck;
	int lost;	      /* -errno when nothing more can be sent, or 0 */
	unsigned empty, rest; /* looks without input so far; looks to skip now */
	uint64_t looked_at;
};

struct conns {
	struct source source;
	struct core *core;
	int epfd;
	struct list all, stuck;
	_Atomic unsigned n; /* written with the turn held */
	unsigned blocked, paused;
	_Atomic int few[FEW]; /* sockets that a sleeping thread polls directly */
	void (*kick)(void *arg);
	void *arg;
};

/* --- coming and going ---------------------------------------------------- */

static bool are_few(const struct conns *cs)
{
	return cs->n <= FEW;
}

static int watch_stream(struct conns *cs, struct tcp_conn *c, int op)
{
	struct epoll_event e = { .data.ptr = c };

	if (!c->deaf && !c->paused && !are_few(cs))
		e.events |= EPOLLIN;
	if (c->blocked)
		e.events |= EPOLLOUT;
	return epoll_ctl(cs->epfd, op, c->stream->fd, &e) ? -errno : 0;
}

static void set_blocked(struct conns *cs, struct tcp_conn *c, bool blocked)
{
	if (c->blocked == blocked)
		return;
	c->blocked = blocked;
	cs->blocked += blocked ? 1 : -1u;
	if (!c->deaf)
		watch_stream(cs, c, EPOLL_CTL_MOD);
}

static void set_paused(struct conns *cs, struct tcp_conn *c, bool paused)
{
	if (c->paused == paused)
		return;
	c->paused = paused;
	cs->paused += paused ? 1 : -1u;
	if (!c->deaf && !are_few(cs))
		watch_stream(cs, c, EPOLL_CTL_MOD);
}

/* Updates which sockets are polled directly. */
static void sort(struct conns *cs, bool other_way)
{
	unsigned i = 0;

	list_for(n, &cs->all)
	{
		struct tcp_conn *c = container_of(n, struct tcp_conn, node);

		if (c->deaf)
			continue;
		if (other_way)
			watch_stream(cs, c, EPOLL_CTL_MOD);
		if (are_few(cs) && !c->paused)
			atomic_store_explicit(&cs->few[i++], c->stream->fd,
					      memory_order_relaxed);
	}
	while (i < FEW)
		atomic_store_explicit(&cs->few[i++], -1, memory_order_relaxed);
}

/* After a connection came, went, went deaf or takes bytes again. */
static void sort_out(struct conns *cs, bool other_way)
{
	sort(cs, other_way);
	/* Wake the thread: bytes may have come before the socket was watched, and only a
	 * poller would look next. A socket that a thread sleeps on is also not closed
	 * until the thread wakes. */
	cs->kick(cs->arg);
}

static int on_attached(void *arg, struct qp *qp, struct stream *stream)
{
	struct conns *cs = arg;
	struct tcp_conn *c = turn_alloc(sizeof(*c));
	int rc;

	if (!c)
		return -ENOMEM;
	c->qp = qp;
	c->stream = stream;
	cs->n++;
	rc = watch_stream(cs, c, EPOLL_CTL_ADD);
	if (rc) {
		log_info("QP 0x%06x: its TCP connection cannot be watched: %s", qp->qpn,
			 strerror(-rc));
		cs->n--;
		turn_free(c);
		return rc;
	}
	wraps_are_passed();
	stream->user = c;
	list_add_tail(&cs->all, &c->node);
	sort_out(cs, cs->n == FEW + 1);
	return 0;
}

/* Stops watching: epoll would report the end of the stream for ever. */
static void be_deaf(struct conns *cs, struct tcp_conn *c)
{
	if (c->deaf)
		return;
	set_blocked(cs, c, false);
	set_paused(cs, c, false);
	c->deaf = true;
	c->stuck = epoll_ctl(cs->epfd, EPOLL_CTL_DEL, c->stream->fd, NULL) != 0;
}

static void on_released(void *arg, struct qp *qp, struct stream *stream)
{
	struct conns *cs = arg;
	struct tcp_conn *c = stream->user;

	(void)qp;
	be_deaf(cs, c);
	list_del(&c->node);
	cs->n--;
	sort_out(cs, cs->n == FEW);
	if (c->stuck)
		list_add_tail(&cs->stuck, &c->node);
	else
		turn_free(c);
	stream->ops->close(stream);
}

/* A thread that sleeps on the socket of a connection that pauses finds out when it wakes
 * up, so only the other way needs a kick. */
static void on_paused(void *arg, struct qp *qp, struct stream *stream, bool on)
{
	struct conns *cs = arg;
	struct tcp_conn *c = stream->user;

	(void)qp;
	set_paused(cs, c, on);
	c->rest = 0;
	if (on)
		sort(cs, false);
	else
		sort_out(cs, false);
}

/* --- in ------------------------------------------------------------------ */

/* Receives a little more than `most` bytes: the rest of an FPDU comes with them. */
static size_t take_in(struct conns *cs, struct tcp_conn *c, size_t most, uint64_t now)
{
	struct qp *qp = c->qp;
	struct iovec iov[2];
	unsigned pieces;
	ssize_t got;

	if (c->deaf || c->paused)
		return 0;
	lock_take(&qp->lock);
	pieces = iwarp_room(qp, iov);
	if (iov[pieces - 1].iov_len > most)
		iov[pieces - 1].iov_len = most;
	got = c->stream->ops->recv(c->stream, iov, pieces, now);
	if (got > 0) {
		iwarp_received(qp, (size_t)got, now);
	} else if (got < 0) {
		be_deaf(cs, c);
		sort_out(cs, false);
		if (got == -ESHUTDOWN)
			got = c->lost;
		iwarp_hangup(qp, (int)got, now);
	}
	lock_give(&qp->lock);
	return got > 0 ? (size_t)got : c->deaf;
}

/* A connection that is paused has nothing to say but that it is lost. The peer's FIN,
 * unlike that, is read in its place, behind the messages. */
static void lost(struct conns *cs, struct tcp_conn *c, uint64_t now)
{
	socklen_t len = sizeof(int);
	int why = 0;

	if (getsockopt(c->stream->fd, SOL_SOCKET, SO_ERROR, &why, &len) || !why)
		why = ECONNRESET;
	lock_take(&c->qp->lock);
	be_deaf(cs, c);
	sort_out(cs, false);
	iwarp_hangup(c->qp, -why, now);
	lock_give(&c->qp->lock);
}

/* Each connection with input gets an equal share. epoll reports the same ones again, so
 * one that is left out once would be left out for ever. (If there are more than EVENTS,
 * epoll takes turns.) */
static size_t take_watched(struct conns *cs, uint64_t now)
{
	struct epoll_event ev[EVENTS];
	int n = epoll_wait(cs->epfd, ev, EVENTS, 0);
	size_t bytes = 0, share = n > 0 ? IN_TURN / (unsigned)n : 0;

	for (int i = 0; i < n; i++) {
		struct tcp_conn *c = ev[i].data.ptr;

		if (c->deaf)
			continue;
		if (ev[i].events & EPOLLOUT) {
			set_blocked(cs, c, false);
			due_add(cs->core, c->qp);
		}
		if (c->paused && ev[i].events & (EPOLLHUP | EPOLLERR))
			lost(cs, c, now);
		else if (ev[i].events & ~(unsigned)EPOLLOUT)
			bytes += take_in(cs, c, share, now);
	}
	return bytes + (n > 0);
}

/* A connection that stays empty is looked at more and more rarely, except the one that
 * had input last. */
static size_t take_few(struct conns *cs, uint64_t now)
{
	struct list *first = cs->all.next;
	size_t bytes = 0;

	list_for_safe(n, &cs->all)
	{
		struct tcp_conn *c = container_of(n, struct tcp_conn, node);
		size_t got;

		if (n != first && c->rest && now - c->looked_at < REST_NS) {
			c->rest--;
			continue;
		}
		c->looked_at = now;
		got = take_in(cs, c, IN_TURN / FEW, now);
		if (got)
			c->empty = 0;
		else if (c->empty < EMPTY_MAX)
			c->empty++;
		c->rest = (1u << c->empty) - 1;
		if (got && !bytes && n != first) {
			list_del(n);
			list_add_tail(cs->all.next, n);
		}
		bytes += got;
	}
	return bytes;
}

size_t conns_input(struct conns *cs, uint64_t now)
{
	size_t bytes = 0;

	if (cs->n == 0)
		return 0;
	if (!are_few(cs) || cs->blocked || cs->paused)
		bytes = take_watched(cs, now);
	if (are_few(cs))
		bytes += take_few(cs, now);
	return bytes;
}

/* --- as a source ---------------------------------------------------------- */

static struct conns *conns_of(struct source *s)
{
	return container_of(s, struct conns, source);
}

/* One connection was readable, or all are to be looked at. */
static void look_surely(struct conns *cs, int fd, bool all)
{
	list_for(n, &cs->all)
	{
		struct tcp_conn *c = container_of(n, struct tcp_conn, node);

		if (all || c->stream->fd == fd)
			c->rest = 0;
	}
}

static unsigned input(struct source *s, enum source_depth depth, struct source_got *got,
		      uint64_t now)
{
	struct conns *cs = conns_of(s);
	int was;
	bool any;

	(void)got;
	if (cs->n == 0)
		return 0;
	if (s->ready >= 0 || depth == SOURCE_ALL)
		look_surely(cs, s->ready, depth == SOURCE_ALL);
	was = cancel_hold();
	any = conns_input(cs, now) > 0;
	cancel_let(was);
	return any;
}

static unsigned fds(struct source *s, struct source_fd *fd)
{
	const struct conns *cs = conns_of(s);
	unsigned n = 0;

	fd[n++] = (struct source_fd){ .fd = conns_fd(cs) };
	for (unsigned i = 0; i < FEW; i++)
		fd[n++] = (struct source_fd){
			.fd = atomic_load_explicit(&cs->few[i], memory_order_relaxed),
			.stream = true
		};
	return n;
}

static void forked(struct source *s)
{
	struct conns *cs = conns_of(s);

	list_for(n, &cs->all)
		stream_forked(container_of(n, struct tcp_conn, node)->stream);
	close(cs->epfd);
}

static const struct source_ops source_ops = {
	SOURCE_SOCKETS,
	.input = input,
	.fds = fds,
	.forked = forked,
};

struct source *conns_source(struct conns *cs)
{
	return &cs->source;
}

/* --- out ----------------------------------------------------------------- */

/* Sends what qp has. Returns false if the stream is full or there is nothing to send. */
static bool put_out(struct conns *cs, struct tcp_conn *c, size_t *bytes, uint64_t now)
	REQUIRES(c->qp->lock)
{
	struct qp *qp = c->qp;
	const struct iovec *iov;
	size_t all = 0;
	ssize_t took;
	unsigned n;

	qp_is_held(qp);
	n = iwarp_output(qp, &iov, now);
	if (n == 0)
		return false;
	for (unsigned i = 0; i < n; i++)
		all += iov[i].iov_len;
	took = c->stream->ops->send(c->stream, iov, n, now);
	if (took < 0 && took != -EFAULT) {
		/* First read what had come before the loss, to its end: it may contain
		 * the peer's reason. */
		iwarp_sent(qp, 0, now);
		c->lost = (int)took;
		return false;
	}
	iwarp_sent(qp, took, now);
	if (took >= 0 && (size_t)took < all) {
		set_blocked(cs, c, true);
		return false;
	}
	*bytes += took > 0 ? (size_t)took : 0;
	return true;
}

static bool on_output(void *arg, struct qp *qp, uint64_t now)
{
	struct conns *cs = arg;
	struct stream *stream = iwarp_stream(qp);
	struct tcp_conn *c = stream ? stream->user : NULL;
	size_t bytes = 0;
	bool more = true;

	if (!c)
		return false;
	qp_is_held(c->qp);
	if (c->lost)
		more = false;
	while (more && !c->blocked && bytes < OUT_TURN)
		more = put_out(cs, c, &bytes, now);
	cs->core->round.spent += (uint32_t)(bytes / SPENT_BYTES) + (bytes > 0);
	switch (iwarp_wish(qp)) {
	case IW_WISH_NONE:
		break;
	case IW_WISH_FIN:
		stream->ops->fin(stream);
		break;
	case IW_WISH_CLOSE:
		iwarp_release(qp);
		return false;
	}
	return more && !c->blocked;
}

static const struct iwarp_ops ops = {
	.attached = on_attached,
	.released = on_released,
	.paused = on_paused,
	.output = on_output,
};

/* --- */

int conns_open(struct conns **out, struct core *core, void (*kick)(void *arg), void *arg)
{
	struct conns *cs = calloc(1, sizeof(*cs));
	int rc;

	if (!cs)
		return -ENOMEM;
	source_init(&cs->source, &source_ops);
	cs->core = core;
	cs->kick = kick;
	cs->arg = arg;
	list_init(&cs->all);
	list_init(&cs->stuck);
	for (unsigned i = 0; i < FEW; i++)
		atomic_init(&cs->few[i], -1);
	cs->epfd = fd_raise(epoll_create1(EPOLL_CLOEXEC));
	if (cs->epfd < 0) {
		rc = -errno;
		goto free_conns;
	}
	rc = iwarp_open(core, &ops, cs);
	if (rc)
		goto close_epoll;
	*out = cs;
	return 0;

close_epoll:
	close(cs->epfd);
free_conns:
	free(cs);
	return rc;
}

void conns_close(struct conns *cs)
{
	iwarp_close(cs->core);
	list_for_safe(n, &cs->stuck) free(container_of(n, struct tcp_conn, node));
	close(cs->epfd);
	free(cs);
}

int conns_fd(const struct conns *cs)
{
	/* With an empty epoll set, every sleep of a process without iWARP would take
	 * longer. */
	return cs->n ? cs->epfd : -1;
}
