/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket_poll.c - rpoll and rselect: our sockets and others' descriptors. */
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>

#include "abi/rsocket.h"

enum { FEW = 16 };

/* A call of rpoll: for each of its entries the socket, if it is one, and how it
 * sleeps on it. */
struct set {
	struct pollfd *fds;
	nfds_t n;
	struct rsock **rs;			/* counted; NULL: not ours */
	struct pollfd *sleep;			/* of each, then this thread's eventfd */
	nfds_t ours;
	struct rsock *few_rs[FEW];
	struct pollfd few_sleep[FEW + 1];
};

static int make_set(struct set *s, struct pollfd *fds, nfds_t n)
{
	s->fds = fds;
	s->n = n;
	s->ours = 0;
	s->rs = n <= FEW ? s->few_rs : calloc(n, sizeof(struct rsock *));
	s->sleep = n <= FEW ? s->few_sleep : calloc(n + 1, sizeof(*s->sleep));
	if (!s->rs || !s->sleep)
		return -ENOMEM;
	for (nfds_t i = 0; i < n; i++) {
		s->rs[i] = rsock_find(fds[i].fd);
		if (s->rs[i])
			s->ours++;
	}
	return 0;
}

static void drop_set(struct set *s)
{
	for (nfds_t i = 0; s->rs && s->sleep && i < s->n; i++)
		if (s->rs[i])
			rsock_put(s->rs[i]);
	if (s->n <= FEW)
		return;
	free(s->rs);
	free(s->sleep);
}

static short wanted(const struct pollfd *p)
{
	return (short)(p->events | POLLERR | POLLHUP | POLLNVAL);
}

static short events_of(struct rsock *rs, short asked)
{
	short ev;

	if (rsock_forked(rs))
		return POLLERR;
	pthread_mutex_lock(&rs->lock);
	ev = rsock_is_stream(rs) ? rsock_events(rs, asked) : rsock_dgram_events(rs);
	pthread_mutex_unlock(&rs->lock);
	return ev;
}

/* Of our sockets: how many have something. */
static int look(struct set *s)
{
	int some = 0;

	for (nfds_t i = 0; i < s->n; i++) {
		if (!s->rs[i])
			continue;
		s->fds[i].revents = events_of(s->rs[i], s->fds[i].events) &
				    wanted(&s->fds[i]);
		some += s->fds[i].revents != 0;
	}
	return some;
}

/* Of the others. */
static int look_elsewhere(struct set *s)
{
	int some;

	if (s->ours == s->n)
		return 0;
	for (nfds_t i = 0; i < s->n; i++)
		s->sleep[i] = (struct pollfd){ .fd = s->rs[i] ? -1 : s->fds[i].fd,
					       .events = s->fds[i].events };
	some = poll(s->sleep, s->n, 0);
	for (nfds_t i = 0; some >= 0 && i < s->n; i++)
		if (!s->rs[i])
			s->fds[i].revents = s->sleep[i].revents;
	return some;
}

static void lie_down(struct set *s, struct rsock_sleeper *sl)
{
	for (nfds_t i = 0; i < s->n; i++) {
		struct rsock *rs = s->rs[i];

		s->sleep[i] = (struct pollfd){ .fd = s->fds[i].fd,
					       .events = s->fds[i].events };
		if (!rs)
			continue;
		s->sleep[i].fd = -1;
		if (rsock_forked(rs))
			continue;
		pthread_mutex_lock(&rs->lock);
		rsock_wait_begin(sl, rs);
		if (rsock_is_stream(rs))
			rsock_arm(rs, s->fds[i].events & (POLLOUT | POLLWRNORM));
		else
			rsock_dgram_arm(rs);
		s->sleep[i] = (struct pollfd){ .fd = rs->sleep_fd, .events = POLLIN };
		pthread_mutex_unlock(&rs->lock);
	}
	s->sleep[s->n] = (struct pollfd){ .fd = sl->efd, .events = POLLIN };
}

static void get_up(struct set *s, struct rsock_sleeper *sl)
{
	rsock_wait_end(sl);
	for (nfds_t i = 0; i < s->n; i++) {
		struct rsock *rs = s->rs[i];

		if (!rs || rsock_forked(rs))
			continue;
		pthread_mutex_lock(&rs->lock);
		rsock_take_events(rs);
		pthread_mutex_unlock(&rs->lock);
	}
}

/* The same twice: what came between looking and lying down is seen in between. */
static int sleep_once(struct set *s, int ms)
{
	struct rsock_sleeper *sl;
	int rc = rsock_sleeper(s->ours, &sl);

	if (rc)
		return rc;
	lie_down(s, sl);
	rc = look(s) ? 0 : poll(s->sleep, s->n + 1, ms);
	if (rc < 0)
		rc = -errno;
	get_up(s, sl);
	return rc < 0 ? rc : 0;
}

static int poll_set(struct set *s, int ms)
{
	uint64_t begin = rsock_now(), now = begin, end;

	end = now + (uint64_t)(ms > 0 ? ms : 0) * 1000000;
	for (;;) {
		int some = look(s), others = look_elsewhere(s), rc;

		if (others < 0)
			return -errno;
		if (some + others || !ms)
			return some + others;
		now = rsock_now();
		if (ms > 0 && now >= end)
			return 0;
		if (now - begin < rsock_spin())
			continue;
		rc = sleep_once(s, ms < 0 ? -1 : (int)((end - now + 999999) / 1000000));
		if (rc)
			return rc;
		rsock_slept(rsock_now() - begin);
	}
}

EXPORT int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	struct set s;
	int rc = make_set(&s, fds, nfds);

	if (!rc && !s.ours)
		rc = poll(fds, nfds, timeout) >= 0 ? 0 : -errno;
	else if (!rc)
		rc = poll_set(&s, timeout);
	if (!rc && !s.ours)
		for (nfds_t i = 0; i < nfds; i++)
			rc += fds[i].revents != 0;
	drop_set(&s);
	return cma_result(rc);
}

/* --- rselect ------------------------------------------------------------------------------ */

static struct pollfd *to_poll(int nfds, const fd_set *in, const fd_set *out,
			      const fd_set *except, nfds_t *n)
{
	struct pollfd *fds = calloc((size_t)nfds + 1, sizeof(*fds));

	*n = 0;
	for (int fd = 0; fds && fd < nfds; fd++) {
		short ev = (short)((in && FD_ISSET(fd, in) ? POLLIN : 0) |
				   (out && FD_ISSET(fd, out) ? POLLOUT : 0) |
				   (except && FD_ISSET(fd, except) ? POLLPRI : 0));

		if (ev)
			fds[(*n)++] = (struct pollfd){ .fd = fd, .events = ev };
	}
	return fds;
}

static int mark(fd_set *set, const struct pollfd *p, short asked, short got)
{
	if (!set || !(p->events & asked))
		return 0;
	if (!(p->revents & got)) {
		FD_CLR(p->fd, set);
		return 0;
	}
	FD_SET(p->fd, set);
	return 1;
}

static int from_poll(const struct pollfd *fds, nfds_t n, fd_set *in, fd_set *out,
		     fd_set *except)
{
	int bits = 0;

	for (nfds_t i = 0; i < n; i++) {
		if (fds[i].revents & POLLNVAL)
			return -EBADF;
		bits += mark(in, &fds[i], POLLIN, POLLIN | POLLHUP | POLLERR);
		bits += mark(out, &fds[i], POLLOUT, POLLOUT | POLLERR);
		bits += mark(except, &fds[i], POLLPRI, POLLPRI);
	}
	return bits;
}

EXPORT int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
		   struct timeval *timeout)
{
	struct pollfd *fds;
	nfds_t n;
	int rc, ms = -1;

	if (nfds < 0 || nfds > FD_SETSIZE)
		return cma_result(-EINVAL);
	if (timeout)
		ms = timeout->tv_sec > 2000000 ? -1 :
		     (int)(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
	fds = to_poll(nfds, readfds, writefds, exceptfds, &n);
	if (!fds)
		return cma_result(-ENOMEM);
	rc = rpoll(fds, n, ms) < 0 ? -errno : from_poll(fds, n, readfds, writefds,
							exceptfds);
	free(fds);
	return cma_result(rc);
}
